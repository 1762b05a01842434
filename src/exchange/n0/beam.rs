//! Schedules without an idle event: for phases whose every message uses a lane that has work for the
//! whole time.
//!
//! A lane that has no event to spare takes its next message the moment the last one ends, so a
//! schedule is built in order of time: the earliest such lane chooses among the messages whose other
//! lanes are free then as well. Of the partial schedules that carry equally much only the best few are
//! followed: those whose lanes become free together, because a message to many receivers needs that.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::chance::scrambled;
use super::messages::Messages;

/// Lanes whose next messages start at one event count this much together.
const APART: u32 = 1024;
/// And this much for each event by which it starts later.
const LATER: u32 = 100;
/// A score may differ by up to this much by chance.
const NOISE: u32 = 512;
/// Partial schedules kept for each that is followed: some turn out to be the same.
const KEPT: usize = 2;

/// How one attempt goes about it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Partial schedules that are followed, of those that carry equally much.
    pub width: usize,
    /// Chance.
    pub seed: u64,
    /// Steps that are looked at, at most.
    pub steps: usize,
}

/// Whether every message uses a lane that is busy all the time up to `horizon`.
pub fn suits(messages: &Messages, horizon: u32) -> bool {
    let full = |lane: &u32| messages.loads()[*lane as usize] == horizon;
    (0..messages.count()).all(|message| messages.lanes(message).iter().any(full))
}

/// A lane in a partial schedule.
#[derive(Clone, Copy)]
struct Lane {
    /// End of its last message.
    free: u32,
    /// Words that it has still to carry.
    left: u32,
}

impl Lane {
    /// Whether it must not idle from its last message's end on.
    fn tight(&self, horizon: u32) -> bool {
        self.left > 0 && self.free + self.left == horizon
    }
}

/// A partial schedule.
struct State {
    lanes: Box<[Lane]>,
    placed: Box<[u64]>,
    /// Of the set of messages that are placed.
    hash: u64,
    /// Its last step.
    step: usize,
}

impl State {
    fn has(&self, message: usize) -> bool {
        self.placed[message / 64] >> (message % 64) & 1 == 1
    }
}

/// A partial schedule with one message more.
struct Child {
    score: u32,
    hash: u64,
    parent: Rc<State>,
    message: u32,
    start: u32,
}

/// A message placed after the step `before`; the first step places none.
#[derive(Clone, Copy, Default)]
struct Step {
    before: usize,
    message: u32,
    start: u32,
}

/// The search for schedules that end at one horizon.
pub struct Beam<'a> {
    messages: &'a Messages,
    horizon: u32,
    by_lane: Vec<Vec<u32>>,
    /// The message before each that differs in nothing from it: that one is placed first.
    twins: Vec<Option<u32>>,
    steps: Vec<Step>,
    scratch: Box<[Lane]>,
    /// The last score that met each free event.
    met: Vec<usize>,
    scores: usize,
}

impl<'a> Beam<'a> {
    /// A search for schedules of `messages` that end at `horizon`.
    pub fn new(messages: &'a Messages, horizon: u32) -> Beam<'a> {
        Beam {
            messages,
            horizon,
            by_lane: messages.by_lane(),
            twins: twins(messages),
            steps: vec![],
            scratch: Box::default(),
            met: vec![0; horizon as usize + 1],
            scores: 0,
        }
    }

    /// One attempt: the steps it took, and the start of every message if it found them.
    pub fn attempt(
        &mut self,
        attempt: Attempt,
        stopped: &dyn Fn() -> bool,
    ) -> (usize, Option<Vec<u32>>) {
        let scores = self.scores;
        let starts = self.follow_all(attempt, stopped);
        (self.scores - scores, starts)
    }

    fn follow_all(&mut self, attempt: Attempt, stopped: &dyn Fn() -> bool) -> Option<Vec<u32>> {
        self.steps = vec![Step::default()];
        let total: u32 = self.messages.loads().iter().sum();
        let mut levels = BTreeMap::from([(0, vec![])]);
        let mut first = Some(self.empty());
        let scores = self.scores;
        while let Some((carried, mut level)) = levels.pop_first() {
            level.sort_unstable_by_key(|child: &Child| (child.score, child.hash));
            let mut seen = BTreeSet::new();
            level.retain(|child| seen.insert(child.hash));
            level.truncate(attempt.width);
            if carried == total {
                return level.first().map(|child| self.starts(child));
            }
            if stopped() || self.scores - scores > attempt.steps {
                return None;
            }
            let states: Vec<State> = match first.take() {
                Some(first) => vec![first],
                None => level.iter().map(|child| self.grown(child)).collect(),
            };
            for state in states {
                self.follow(Rc::new(state), carried, attempt, &mut levels);
            }
        }
        None
    }

    fn empty(&self) -> State {
        let lane = |load: &u32| Lane { free: 0, left: *load };
        State {
            lanes: self.messages.loads().iter().map(lane).collect(),
            placed: vec![0; self.messages.count().div_ceil(64)].into(),
            hash: 0,
            step: 0,
        }
    }

    /// Adds what may come after a partial schedule to the levels.
    fn follow(
        &mut self,
        state: Rc<State>,
        carried: u32,
        attempt: Attempt,
        levels: &mut BTreeMap<u32, Vec<Child>>,
    ) {
        let tight = state.lanes.iter().filter(|lane| lane.tight(self.horizon));
        let Some(now) = tight.map(|lane| lane.free).min() else { return };
        for message in self.choices(&state, now) {
            let hash = state.hash
                ^ u64::from(scrambled(u64::from(message))) << 32
                ^ u64::from(scrambled(u64::from(message) + 0x1000_0000));
            let Some(score) = self.score(&state, message as usize, now, hash, attempt) else {
                continue;
            };
            let lanes = self.messages.lanes(message as usize).len() as u32;
            let carried = carried + lanes * self.messages.words(message as usize);
            let level = levels.entry(carried).or_default();
            level.push(Child { score, hash, parent: Rc::clone(&state), message, start: now });
            let kept = KEPT * attempt.width;
            if level.len() == 4 * kept {
                level.select_nth_unstable_by_key(kept, |child| (child.score, child.hash));
                level.truncate(kept);
            }
        }
    }

    /// The messages of which one has to start at `now`: those of the lane with the fewest.
    fn choices(&self, state: &State, now: u32) -> Vec<u32> {
        let mut fewest: Option<Vec<u32>> = None;
        for (lane, messages) in state.lanes.iter().zip(&self.by_lane) {
            if lane.free != now || !lane.tight(self.horizon) {
                continue;
            }
            let enough = fewest.as_ref().map_or(usize::MAX, Vec::len);
            let fits = messages.iter().copied().filter(|message| self.fits(state, *message, now));
            let fits: Vec<u32> = fits.take(enough).collect();
            if fits.len() < enough {
                fewest = Some(fits);
            }
        }
        fewest.unwrap_or_default()
    }

    /// Whether a message may start at `now`, and no equal one is to come before it.
    fn fits(&self, state: &State, message: u32, now: u32) -> bool {
        let message = message as usize;
        let twin = self.twins[message];
        !state.has(message)
            && twin.is_none_or(|twin| state.has(twin as usize))
            && self.messages.lanes(message).iter().all(|lane| {
                let lane = state.lanes[*lane as usize];
                lane.free <= now && now + lane.left <= self.horizon
            })
    }

    /// How bad it is to start a message at `now`; none if some lane could not be through in time.
    fn score(
        &mut self,
        state: &State,
        message: usize,
        now: u32,
        hash: u64,
        attempt: Attempt,
    ) -> Option<u32> {
        self.scores += 1;
        let horizon = self.horizon;
        self.scratch.clone_from(&state.lanes);
        let words = self.messages.words(message);
        for lane in self.messages.lanes(message) {
            let lane = &mut self.scratch[*lane as usize];
            *lane = Lane { free: now + words, left: lane.left - words };
        }
        let tight = self.scratch.iter().filter(|lane| lane.tight(horizon));
        let next = tight.map(|lane| lane.free).min().unwrap_or(now);
        let mut score = scrambled(hash ^ attempt.seed << 32) % NOISE;
        for lane in self.scratch.iter().filter(|lane| lane.left > 0) {
            if lane.tight(horizon) {
                let met = &mut self.met[lane.free as usize];
                let later = APART + LATER * (lane.free - next);
                score += if *met == self.scores { 0 } else { later };
                *met = self.scores;
            } else if lane.free.max(next) + lane.left > horizon {
                return None;
            }
        }
        Some(score)
    }

    fn grown(&mut self, child: &Child) -> State {
        let Child { parent, message, start, .. } = child;
        let index = *message as usize;
        let (mut lanes, mut placed) = (parent.lanes.clone(), parent.placed.clone());
        placed[index / 64] |= 1 << (index % 64);
        let words = self.messages.words(index);
        for lane in self.messages.lanes(index) {
            let lane = &mut lanes[*lane as usize];
            *lane = Lane { free: start + words, left: lane.left - words };
        }
        self.steps.push(Step { before: parent.step, message: *message, start: *start });
        State { lanes, placed, hash: child.hash, step: self.steps.len() - 1 }
    }

    /// The starts of all messages, `last` being the last step.
    fn starts(&self, last: &Child) -> Vec<u32> {
        let mut starts = vec![0; self.messages.count()];
        starts[last.message as usize] = last.start;
        let mut at = last.parent.step;
        while at != 0 {
            let Step { before, message, start } = self.steps[at];
            starts[message as usize] = start;
            at = before;
        }
        starts
    }
}

fn twins(messages: &Messages) -> Vec<Option<u32>> {
    let mut last = BTreeMap::new();
    let twin = |message: usize| {
        let mut lanes = messages.lanes(message).to_vec();
        lanes.sort_unstable();
        last.insert((messages.words(message), lanes), message as u32)
    };
    (0..messages.count()).map(twin).collect()
}
