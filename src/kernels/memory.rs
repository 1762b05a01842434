//! A tile's memory as kernels see it: typed reads and writes, bounds checked.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::target::sram::MEMORY_START;

/// An operand that does not lie in the tile's memory, or is not aligned for its access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operand of {bytes} bytes at {address:#x} is not in the tile's memory, or misaligned")]
pub struct KernelFault {
    /// First byte.
    pub address: u32,
    /// Length.
    pub bytes: u64,
}

/// Bytes of a tile from [`MEMORY_START`] on.
pub struct Memory<'a> {
    bytes: &'a mut [u8],
}

impl<'a> Memory<'a> {
    /// The memory behind these bytes.
    pub fn new(bytes: &'a mut [u8]) -> Memory<'a> {
        Memory { bytes }
    }

    fn range(
        &self,
        address: u32,
        count: u64,
        size: u64,
    ) -> Result<std::ops::Range<usize>, KernelFault> {
        let bytes = count.saturating_mul(size);
        let fault = KernelFault { address, bytes };
        let start = u64::from(address.checked_sub(MEMORY_START.0).ok_or(fault)?);
        let end = start.saturating_add(bytes);
        if end > self.bytes.len() as u64 || !u64::from(address).is_multiple_of(size.min(4)) {
            return Err(fault);
        }
        Ok(start as usize..end as usize)
    }

    /// Raw bytes.
    pub fn read(&self, address: u32, bytes: u64) -> Result<&[u8], KernelFault> {
        let range = self.range(address, bytes, 1)?;
        Ok(&self.bytes[range])
    }

    /// Raw bytes to write to.
    pub fn write(&mut self, address: u32, bytes: u64) -> Result<&mut [u8], KernelFault> {
        let range = self.range(address, bytes, 1)?;
        Ok(&mut self.bytes[range])
    }

    /// Moves bytes inside the tile.
    pub fn copy(&mut self, from: u32, to: u32, bytes: u64) -> Result<(), KernelFault> {
        let source = self.range(from, bytes, 1)?;
        let destination = self.range(to, bytes, 1)?.start;
        self.bytes.copy_within(source, destination);
        Ok(())
    }

    /// F16 numbers as f32.
    pub fn halves(&self, address: u32, count: u64) -> Result<Vec<f32>, KernelFault> {
        let range = self.range(address, count, 2)?;
        let halves: Vec<f16> = self.bytes[range]
            .chunks_exact(2)
            .map(|pair| f16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        Ok(halves.to_f32_vec())
    }

    /// Writes f32 numbers as F16, rounded to nearest even.
    pub fn set_halves(&mut self, address: u32, numbers: &[f32]) -> Result<(), KernelFault> {
        let range = self.range(address, numbers.len() as u64, 2)?;
        let mut halves = vec![f16::ZERO; numbers.len()];
        halves.convert_from_f32_slice(numbers);
        for (pair, half) in self.bytes[range].chunks_exact_mut(2).zip(halves) {
            pair.copy_from_slice(&half.to_le_bytes());
        }
        Ok(())
    }

    /// F32 numbers.
    pub fn words(&self, address: u32, count: u64) -> Result<Vec<f32>, KernelFault> {
        let range = self.range(address, count, 4)?;
        let words = self.bytes[range].chunks_exact(4);
        Ok(words.map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect())
    }

    /// Writes F32 numbers.
    pub fn set_words(&mut self, address: u32, numbers: &[f32]) -> Result<(), KernelFault> {
        let range = self.range(address, numbers.len() as u64, 4)?;
        for (word, number) in self.bytes[range].chunks_exact_mut(4).zip(numbers) {
            word.copy_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }
}
