//! Schedules without an idle event: for phases whose every message uses a lane that has work for the
//! whole time.
//!
//! A lane that has no event to spare takes its next message the moment the last one ends, so a
//! schedule is built in order of time: the earliest such lane chooses among the messages whose other
//! lanes are free then as well. Of the partial schedules that carry equally much only the best few are
//! followed: those whose lanes become free together, because a message to many receivers needs that.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::messages::Messages;

/// Lanes whose next messages start at one event count this much together.
const APART: u32 = 1024;
/// And this much for each event by which it starts later.
const LATER: u32 = 100;
/// A score may differ by chance by less than 2 to the power of this.
const NOISE_BITS: u32 = 9;
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

    /// The event at which a message of it has to start.
    fn front(&self, horizon: u32) -> Option<u32> {
        self.tight(horizon).then_some(self.free)
    }
}

/// The events at which lanes that must not idle wait for a message.
struct Front {
    /// Lanes that wait at each event.
    lanes: Vec<u32>,
    /// Events at which any does.
    events: u32,
    /// These events, added up.
    sum: u32,
}

impl Front {
    /// A lane no longer waits at one event, but at another.
    fn change(&mut self, from: Option<u32>, to: Option<u32>) {
        if let Some(from) = from {
            let lanes = &mut self.lanes[from as usize];
            *lanes -= 1;
            if *lanes == 0 {
                self.events -= 1;
                self.sum -= from;
            }
        }
        if let Some(to) = to {
            let lanes = &mut self.lanes[to as usize];
            *lanes += 1;
            if *lanes == 1 {
                self.events += 1;
                self.sum += to;
            }
        }
    }

    /// The first such event from `now` on.
    fn first(&self, now: u32) -> Option<u32> {
        (now..).zip(&self.lanes[now as usize..]).find(|(_, lanes)| **lanes > 0).map(|found| found.0)
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
    /// A random number for each message: those of a set together are the set's hash.
    keys: Vec<u64>,
    /// The message before each that differs in nothing from it: that one is placed first.
    twins: Vec<Option<u32>>,
    steps: Vec<Step>,
    /// Of the state that is followed.
    front: Front,
    /// Lanes of that state on which a message may start.
    open: Vec<bool>,
    scores: usize,
}

impl<'a> Beam<'a> {
    /// A search for schedules of `messages` that end at `horizon`.
    pub fn new(messages: &'a Messages, horizon: u32) -> Beam<'a> {
        Beam {
            messages,
            horizon,
            by_lane: messages.by_lane(),
            keys: vec![],
            twins: twins(messages),
            steps: vec![],
            front: Front { lanes: vec![0; horizon as usize + 1], events: 0, sum: 0 },
            open: vec![],
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
        let mut random = ChaCha8Rng::seed_from_u64(attempt.seed);
        self.keys = (0..self.messages.count()).map(|_| random.random()).collect();
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
        let waiting = state.lanes.iter().filter_map(|lane| lane.front(self.horizon));
        let Some(now) = waiting.clone().min() else { return };
        waiting.for_each(|event| self.front.change(None, Some(event)));
        for message in self.choices(&state, now) {
            let hash = state.hash.wrapping_add(self.keys[message as usize]);
            let Some(score) = self.score(&state, message as usize, now, hash) else {
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
        let waiting = state.lanes.iter().filter_map(|lane| lane.front(self.horizon));
        waiting.for_each(|event| self.front.change(Some(event), None));
    }

    /// The messages of which one has to start at `now`: those of the lane with the fewest.
    fn choices(&mut self, state: &State, now: u32) -> Vec<u32> {
        let horizon = self.horizon;
        let open = |lane: &Lane| lane.free <= now && now + lane.left <= horizon;
        self.open.clear();
        self.open.extend(state.lanes.iter().map(open));
        let mut fewest: Option<(usize, &[u32])> = None;
        for (lane, messages) in state.lanes.iter().zip(&self.by_lane) {
            if lane.free != now || !lane.tight(horizon) {
                continue;
            }
            let enough = fewest.map_or(usize::MAX, |(count, _)| count);
            let count = messages.iter().filter(|message| self.fits(state, **message)).take(enough);
            let count = count.count();
            if count < enough {
                fewest = Some((count, messages));
            }
        }
        let (_, messages) = fewest.unwrap_or_default();
        messages.iter().copied().filter(|message| self.fits(state, *message)).collect()
    }

    /// Whether all lanes of a message are open and no equal one is to come before it.
    fn fits(&self, state: &State, message: u32) -> bool {
        let message = message as usize;
        !state.has(message)
            && self.messages.lanes(message).iter().all(|lane| self.open[*lane as usize])
            && self.twins[message].is_none_or(|twin| state.has(twin as usize))
    }

    /// How bad it is to start a message at `now`; none if some lane could not be through in time.
    fn score(&mut self, state: &State, message: usize, now: u32, hash: u64) -> Option<u32> {
        self.scores += 1;
        let (horizon, words) = (self.horizon, self.messages.words(message));
        let lanes = self.messages.lanes(message);
        let after = |lane: Lane| Lane { free: now + words, left: lane.left - words };
        for lane in lanes {
            let lane = state.lanes[*lane as usize];
            self.front.change(lane.front(horizon), after(lane).front(horizon));
        }
        let next = self.front.first(now).unwrap_or(now);
        let apart = self.front.events * APART + LATER * (self.front.sum - self.front.events * next);
        for lane in lanes {
            let lane = state.lanes[*lane as usize];
            self.front.change(after(lane).front(horizon), lane.front(horizon));
        }
        // Up to `now`, the state before has seen to it.
        let through = |lane: &Lane| lane.left == 0 || lane.free.max(next) + lane.left <= horizon;
        let in_time = next == now
            || (0..)
                .zip(&state.lanes)
                .all(|(number, lane)| through(lane) || lanes.contains(&number))
                && lanes.iter().all(|lane| through(&after(state.lanes[*lane as usize])));
        in_time.then_some(apart + (hash >> (u64::BITS - NOISE_BITS)) as u32)
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
