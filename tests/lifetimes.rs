//! How long buffers hold data, and what decides it.

mod common;

use common::{BLOCK, Fixture};
use ipu_tune::cost::Coefficients;
use ipu_tune::kernels::Kernel;
use ipu_tune::plan::Recipe;
use ipu_tune::program::{Call, Part, Program, program};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn lived(program: &Program, buffer: &str) -> u32 {
    let found = program.buffers.iter().find(|found| found.name.starts_with(buffer));
    let found = found.unwrap_or_else(|| panic!("a buffer {buffer}"));
    found.live.end - found.live.start
}

fn with_late(recipe: &Recipe, late: impl Fn(usize) -> bool) -> Recipe {
    let mut changed = recipe.clone();
    for (index, node) in changed.nodes.iter_mut().enumerate() {
        node.late = late(index);
    }
    changed
}

#[test]
fn a_late_product_shortens_the_life_of_its_result() {
    let fixture = Fixture::new(BLOCK, 16);
    let first = fixture.first_plans().remove(0);
    let values = fixture.network.nodes.iter().position(|node| node.name == "v").expect("a node v");
    let early = program(&fixture.network, &first);
    let late = program(&fixture.network, &with_late(&first, |index| index == values));
    assert_eq!(early.buffers.len(), late.buffers.len());
    assert!(lived(&late, "v.result") < lived(&early, "v.result"));
    assert!(lived(&late, "norm.result") > lived(&early, "norm.result"), "what it reads waits");
}

#[test]
fn whatever_waits_the_numbers_are_right() {
    let fixture = Fixture::new(BLOCK, 16);
    let evaluator = fixture.evaluator(3);
    let mut random = ChaCha8Rng::seed_from_u64(11);
    for (index, recipe) in fixture.first_plans().iter().cycle().take(24).enumerate() {
        let mut recipe = recipe.clone();
        for node in &mut recipe.nodes {
            node.late = random.random_bool(0.4);
            node.alone = random.random_bool(0.2);
            node.separate = random.random_bool(0.3);
        }
        if let Err(failure) = evaluator.validate(&recipe, 1, &Coefficients::default()) {
            panic!("{index}: {failure}\n{}", recipe.to_json());
        }
    }
}

#[test]
fn a_separate_result_takes_more_memory_and_keeps_its_operand_readable() {
    let fixture = Fixture::new(BLOCK, 16);
    let first = fixture.first_plans().remove(0);
    let with_separate = |separate: &dyn Fn(usize) -> bool| {
        let mut changed = first.clone();
        for (index, node) in changed.nodes.iter_mut().enumerate() {
            node.separate = separate(index);
        }
        program(&fixture.network, &changed)
    };
    let joined = with_separate(&|_| false);
    let mut more = 0;
    for node in 0..first.nodes.len() {
        let separate = with_separate(&|index| index == node);
        more += usize::from(separate.buffers.len() > joined.buffers.len());
        assert!(separate.buffers.len() <= joined.buffers.len() + 1);
        // A call of that node that wrote over what it read does so no more.
        let overwriting = |program: &Program| {
            let calls = program.steps.iter().flat_map(|step| step.calls());
            let over = |(part, call): &(&Part, &Call)| {
                let mut read = call.inputs.iter().map(|input| part.buffer(input.buffer));
                read.any(|read| read == part.buffer(call.output.buffer))
            };
            calls.filter(over).count()
        };
        let fewer = overwriting(&separate) < overwriting(&joined);
        assert_eq!(fewer, separate.buffers.len() > joined.buffers.len(), "node {node}");
    }
    assert!(more >= 2, "only {more} results lie where an operand lay");
}

/// Zeros are written only into operands that a later call on the tile reads.
#[test]
fn what_is_cleared_is_read_later() {
    let fixture = Fixture::new(BLOCK, 16);
    let mut clears = 0;
    for recipe in fixture.first_plans() {
        let program = program(&fixture.network, &recipe);
        let calls: Vec<_> = (0_u32..)
            .zip(&program.steps)
            .flat_map(|(number, step)| step.calls().map(move |(part, call)| (number, part, call)))
            .collect();
        for (number, part, call) in &calls {
            if call.kernel != Kernel::ZeroFill {
                continue;
            }
            clears += 1;
            let cleared = part.buffer(call.output.buffer);
            let reads = |(later, part, reader): &(u32, &Part, &Call)| {
                let mut inputs = reader.inputs.iter().map(|input| part.buffer(input.buffer));
                later > number && reader.tile == call.tile && inputs.any(|read| read == cleared)
            };
            assert!(calls.iter().any(reads), "{}", program.buffers[cleared.0 as usize].name);
        }
    }
    assert!(clears > 0);
}
