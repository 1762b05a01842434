//! Storage placement: answers obey every rule, "impossible" is a proof, bad problems are refused.
#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "a helper that fails fails its test; a problem may have one free range"
)]

use ipu_tune::storage::{Buffer, Outcome, Problem, ProblemError, Support, SupportSizes, place};
use ipu_tune::target::sram::elements;
use ipu_tune::target::{Address, Bytes};
use proptest::prelude::*;

/// What is wrong with a placement, by rules written down here again.
fn violation(problem: &Problem, addresses: &[u32]) -> Option<String> {
    let span = |index: usize| (addresses[index], addresses[index] + problem.buffers[index].size);
    let together = |a: usize, b: usize| {
        let (a, b) = (&problem.buffers[a].live, &problem.buffers[b].live);
        a.start < b.end && b.start < a.end
    };
    for (index, buffer) in problem.buffers.iter().enumerate() {
        let (start, end) = span(index);
        if !start.is_multiple_of(buffer.alignment) {
            return Some(format!("{index} is misaligned"));
        }
        if !problem.free.iter().any(|range| range.start <= start && end <= range.end) {
            return Some(format!("{index} is not inside a free range"));
        }
        if buffer.interleaved && start < 0x80000 {
            return Some(format!("{index} is not interleaved"));
        }
        for other in 0..index {
            let (from, to) = span(other);
            if together(index, other) && from < end && start < to {
                return Some(format!("{index} and {other} overlap"));
            }
        }
    }
    for &(a, b) in &problem.apart {
        let touched = |index: usize| -> Vec<_> {
            elements(Address(addresses[index]), Bytes(problem.buffers[index].size)).collect()
        };
        if together(a, b) && touched(a).iter().any(|element| touched(b).contains(element)) {
            return Some(format!("{a} and {b} share an element"));
        }
    }
    None
}

fn problems() -> impl Strategy<Value = Problem> {
    let buffer = (1..40_000_u32, 2..7_u32, any::<bool>(), 0..12_u32, 1..6_u32).prop_map(
        |(size, alignment, interleaved, start, length)| Buffer {
            size,
            alignment: 1 << alignment,
            interleaved,
            live: start..start + length,
        },
    );
    let room = 0x2000..0x60000_u32;
    (
        prop::collection::vec(buffer, 1..30),
        room,
        prop::collection::vec((0..30_usize, 0..30_usize), 0..5),
    )
        .prop_map(|(buffers, room, apart)| {
            let count = buffers.len();
            let apart =
                apart.into_iter().map(|(a, b)| (a % count, b % count)).filter(|(a, b)| a != b);
            let free = vec![0x50000..0x58000, 0x70000..0x80000 + room];
            Problem { free, apart: apart.collect(), buffers }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn placements_obey_every_rule(problem in problems()) {
        problem.check().unwrap();
        match place(&problem) {
            Outcome::Placed(addresses) => {
                prop_assert_eq!(addresses.len(), problem.buffers.len());
                prop_assert_eq!(violation(&problem, &addresses), None);
            }
            Outcome::Impossible(shortage) => {
                // The proof: at that step the class alone needs more than there is.
                let wanted = |b: &&Buffer| (b.interleaved || !shortage.interleaved) && b.live.contains(&shortage.step);
                let live: u64 = problem.buffers.iter().filter(wanted).map(|b| u64::from(b.size)).sum();
                let from = if shortage.interleaved { 0x80000 } else { 0 };
                let room: u64 = problem.free.iter().map(|r| u64::from(r.end.saturating_sub(r.start.max(from)))).sum();
                prop_assert_eq!(live, room + u64::from(shortage.bytes_over));
            }
            Outcome::Unknown { buffer } => prop_assert!(buffer < problem.buffers.len()),
        }
    }

    /// Disjoint lifetimes share one place; more memory never turns a placement into a failure of
    /// bytes.
    #[test]
    fn what_never_meets_shares_its_place(sizes in prop::collection::vec(1..30_000_u32, 1..20)) {
        let largest = sizes.iter().copied().max().unwrap();
        let buffers = (0..).zip(&sizes).map(|(step, size)| Buffer { size: *size, alignment: 4, interleaved: false, live: step..step + 1 });
        let problem = Problem { free: vec![0x80000..0x80000 + largest], buffers: buffers.collect(), apart: vec![] };
        prop_assert!(matches!(place(&problem), Outcome::Placed(_)));
    }
}

#[test]
fn bad_problems_are_refused() {
    let good = Buffer { size: 64, alignment: 8, interleaved: false, live: 0..2 };
    let one = |buffer: Buffer| Problem {
        free: vec![0x80000..0x90000],
        buffers: vec![buffer],
        apart: vec![],
    };
    assert_eq!(one(good.clone()).check(), Ok(()));
    let refused = |problem: Problem, wanted: &str| {
        let error = problem.check().unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    };
    refused(one(Buffer { size: 0, ..good.clone() }), "0 bytes");
    refused(one(Buffer { size: u32::MAX, ..good.clone() }), "bytes");
    refused(one(Buffer { alignment: 24, ..good.clone() }), "alignment 24");
    #[expect(clippy::reversed_empty_ranges, reason = "a lifetime that ends before it starts")]
    refused(one(Buffer { live: 3..2, ..good.clone() }), "from step 3 to step 2");
    refused(
        Problem { free: vec![0x80000..0x90000, 0x88000..0x98000], ..Problem::default() },
        "overlaps",
    );
    refused(Problem { free: vec![0x40000..0x90000], ..Problem::default() }, "leaves tile memory");
    let twice = Problem { apart: vec![(0, 0)], ..one(good) };
    assert_eq!(twice.check(), Err(ProblemError::Apart(0, 0)));
}

#[test]
fn support_keeps_code_and_data_apart() {
    for count in [1, 12, 40, 70] {
        let routines: Vec<u32> = (0..count).map(|index| 256 + 36 * (index % 40)).collect();
        let sizes = SupportSizes { routines, program: 9000, rows: 21_000, profile: 300 };
        let support = Support::new(&sizes).unwrap();
        let mut code = vec![&support.launch, &support.program, &support.rows];
        code.extend(&support.routines);
        for (index, a) in code.iter().enumerate() {
            assert!(a.end <= 0x80000, "executable");
            for b in &code[..index] {
                assert!(a.end <= b.start || b.end <= a.start);
            }
        }
        let touched = |range: &std::ops::Range<u32>| -> Vec<_> {
            elements(Address(range.start), Bytes(range.end - range.start)).collect()
        };
        for free in support.free.iter().chain([&support.profile]) {
            let data = touched(free);
            assert!(code.iter().all(|range| touched(range).iter().all(|e| !data.contains(e))));
            assert!(free.end <= 0x58000 || free.start >= 0x5c000, "the runtime keeps its state");
        }
        assert!(support.profile.end <= support.free[0].start);
        assert_eq!(support.rows.start % 0x4000, 0);
    }
    let sizes =
        SupportSizes { routines: vec![1000; 90], program: 9000, rows: 100_000, profile: 300 };
    assert!(Support::new(&sizes).unwrap_err().bytes_over > 0);
}
