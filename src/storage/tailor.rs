//! Addresses that fit a kind of tiles: a family's answer leaves room where a tile has fewer and smaller
//! pieces than the one that was placed, and its buffers are moved into that.
//!
//! Which buffers may not overlap is the same on all tiles, so it is found once for the program; a kind
//! adds its sizes. What is moved keeps every rule, and a kind takes no more bytes than before.

use std::cmp::Reverse;

use rayon::prelude::*;

use crate::program::Program;

use super::compact::{ORDERS, ROUNDS, construct};
use super::items::Items;
use super::stack::{Rules, Stack};
use super::tiles::Pieces;

/// A kind is left alone while it takes at most one byte in this many beyond what lives: less cannot be
/// seen in the mean that is aimed at (3 %).
const WORTH: u64 = 100;

/// Kinds that are placed anew: those that waste the most on all of their tiles. More of them gain
/// less and less.
const ANEW: usize = 16;

/// A kind of tiles, and where its pieces lie.
pub(super) struct Kind<'a> {
    pieces: &'a Pieces,
    tiles: u64,
    addresses: Vec<u32>,
    /// Bytes beyond what lives, 0 if that is not worth the work.
    wasted: u64,
}

impl<'a> Kind<'a> {
    /// A number of tiles with the same pieces, at legal addresses.
    pub(super) fn new(pieces: &'a Pieces, tiles: usize, addresses: Vec<u32>) -> Kind<'a> {
        Kind { pieces, tiles: tiles as u64, addresses, wasted: 0 }
    }

    /// Addresses in the order of the pieces.
    pub(super) fn into_addresses(self) -> Vec<u32> {
        self.addresses
    }

    fn items(&self) -> impl Iterator<Item = usize> + use<'a> {
        self.pieces.iter().map(|(id, _)| id.0 as usize)
    }

    /// Takes a placement, which wastes so much.
    fn take(&mut self, stack: &Stack<'_>, wasted: u64) {
        self.addresses = self.items().map(|item| stack.address(item)).collect();
        self.wasted = wasted;
    }
}

/// A program's buffers as what may lie where, of whatever size.
pub(super) struct Tailor<'a> {
    program: &'a Program,
    rules: Rules<'a>,
    /// Buffers that come and go, by step; what goes first.
    changes: Vec<(u32, bool, usize)>,
}

impl<'a> Tailor<'a> {
    /// The items are all buffers of the program, in their order.
    pub(super) fn new(program: &'a Program, items: &'a Items) -> Tailor<'a> {
        let live = program.buffers.iter().map(|buffer| &buffer.live).enumerate();
        let mut changes: Vec<_> = live
            .flat_map(|(buffer, live)| [(live.start, true, buffer), (live.end, false, buffer)])
            .collect();
        changes.sort_unstable();
        Tailor { program, rules: Rules::of(items), changes }
    }

    /// Moves the buffers of all kinds into fewer bytes.
    pub(super) fn fit(&self, mut kinds: Vec<&mut Kind<'_>>) {
        kinds.par_iter_mut().for_each(|kind| self.tighten(kind));
        let mut worst: Vec<_> = kinds.into_iter().filter(|kind| kind.wasted > 0).collect();
        worst.sort_by_key(|kind| Reverse(kind.wasted * kind.tiles));
        worst.truncate(ANEW);
        worst.par_iter_mut().for_each(|kind| self.place_anew(kind));
    }

    /// Moves buffers one by one.
    fn tighten(&self, kind: &mut Kind<'_>) {
        let sizes = self.sizes(kind.pieces);
        let live = self.live(&sizes);
        let mut stack = Stack::new(&self.rules, &sizes);
        stack.fill(kind.items().zip(kind.addresses.iter().copied()));
        if wasted(&stack, live) > 0 {
            stack.tighten(enough(live), ROUNDS);
            kind.take(&stack, wasted(&stack, live));
        }
    }

    /// Places all buffers again, in several orders, and takes what wastes the least.
    fn place_anew(&self, kind: &mut Kind<'_>) {
        let sizes = self.sizes(kind.pieces);
        let live = self.live(&sizes);
        for key in ORDERS {
            let mut stack = Stack::new(&self.rules, &sizes);
            if construct(&mut stack, kind.items(), key) {
                stack.tighten(enough(live), ROUNDS);
                let wasted = wasted(&stack, live);
                if wasted < kind.wasted {
                    kind.take(&stack, wasted);
                }
                if kind.wasted == 0 {
                    break;
                }
            }
        }
    }

    /// Bytes of every buffer, 0 for those that the kind has not.
    fn sizes(&self, pieces: &Pieces) -> Vec<u32> {
        let mut sizes = vec![0; self.program.buffers.len()];
        for (id, bytes) in pieces {
            let index = id.0 as usize;
            sizes[index] = bytes + self.program.buffers[index].tail;
        }
        sizes
    }

    /// Bytes that live at the fullest step.
    fn live(&self, sizes: &[u32]) -> u64 {
        let (mut now, mut most) = (0_u64, 0);
        for (_, comes, buffer) in &self.changes {
            let size = u64::from(sizes[*buffer]);
            now = if *comes { now + size } else { now - size };
            most = most.max(now);
        }
        most
    }
}

/// Bytes that are few enough.
fn enough(live: u64) -> u64 {
    live + live / WORTH
}

/// Bytes beyond those that live, 0 if that is not worth the work.
fn wasted(stack: &Stack<'_>, live: u64) -> u64 {
    let bytes = stack.bytes();
    if bytes > enough(live) { bytes - live } else { 0 }
}
