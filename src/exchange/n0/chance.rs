//! Chance that is the same in every run.

/// A number of 32 bits that looks like chance.
pub fn scrambled(seed: u64) -> u32 {
    let mut x = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 32;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    (x >> 32) as u32
}

/// A sequence of numbers that look like chance.
#[derive(Default)]
pub struct Chance {
    seed: u64,
}

impl Chance {
    /// The next number below `below`.
    pub fn below(&mut self, below: usize) -> usize {
        self.seed += 1;
        ((u64::from(scrambled(self.seed)) * below as u64) >> 32) as usize
    }
}
