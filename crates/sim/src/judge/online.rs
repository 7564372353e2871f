//! Judges every answer at once, while the trace is warm. `seqsvr-check` judges all of them again at
//! the end.

use std::collections::BTreeMap;

use seqsvr_check::Answer;

/// Judge of answers.
pub struct Online {
    /// Whether clocks are bounded, so that answers that are not strict are in order too.
    is_ordered: bool,
    /// By cluster and uid.
    sequences: BTreeMap<(u64, u64), Given>,
    /// The first rule that was broken.
    pub broken: Option<String>,
}

#[derive(Default)]
struct Given {
    /// Last number by first number of what was handed out.
    ranges: BTreeMap<u64, u64>,
    highest: u64,
}

impl Online {
    /// Nothing was answered.
    pub fn new(is_ordered: bool) -> Online {
        Online {
            is_ordered,
            sequences: BTreeMap::new(),
            broken: None,
        }
    }

    /// Highest number that was answered of a sequence.
    pub fn highest(&self, sequence: (u64, u64)) -> u64 {
        self.sequences
            .get(&sequence)
            .map_or(0, |given| given.highest)
    }

    /// Judges an answer of a call that began when `floor` was the highest number answered.
    pub fn judge(
        &mut self,
        now: u64,
        sequence: (u64, u64),
        floor: u64,
        is_strict: bool,
        answer: &Answer,
    ) {
        let must_follow = self.is_ordered || is_strict;
        let given = self.sequences.entry(sequence).or_default();
        let broken = match *answer {
            Answer::Next { first, last, .. } => {
                let before = given.ranges.range(..=last).next_back();
                let twice = before.is_some_and(|(_, end)| *end >= first);
                given.ranges.insert(first, last);
                given.highest = given.highest.max(last);
                match (twice, must_follow && first <= floor) {
                    (true, _) => Some(format!("{first} to {last} was handed out before")),
                    (_, true) => Some(format!("{first} is not above {floor}")),
                    _ => None,
                }
            }
            Answer::Exact(n) if self.is_ordered && n < floor => {
                Some(format!("exactly {n}, but {floor} was handed out"))
            }
            Answer::AtMost(n) if self.is_ordered && n < floor => {
                Some(format!("at most {n}, but {floor} was handed out"))
            }
            Answer::Never if self.is_ordered && floor > 0 => {
                Some(format!("never, but {floor} was handed out"))
            }
            // What is handed out later is above it.
            Answer::RaiseTo { to, .. } => {
                given.highest = given.highest.max(if self.is_ordered { to } else { 0 });
                None
            }
            _ => None,
        };
        if let (None, Some(what)) = (&self.broken, broken) {
            self.broken = Some(format!("at {now}: uid {}: {what}", sequence.1));
        }
    }
}
