//! Judges every answer when it arrives, so that the last events of the trace explain a failure.
//! `seqsvr-check` judges all answers again at the end.

use std::collections::BTreeMap;

use seqsvr_check::Answer;

/// Judge of all answers.
pub struct Online {
    /// Whether clocks are bounded, so that answers to calls that are not strict are in order too.
    is_ordered: bool,
    /// Numbers handed out, by cluster and uid.
    sequences: BTreeMap<(u64, u64), Given>,
    /// First broken rule.
    pub broken: Option<String>,
}

#[derive(Default)]
struct Given {
    /// Ranges handed out: last number by first number.
    ranges: BTreeMap<u64, u64>,
    highest: u64,
}

impl Online {
    /// Creates a judge without answers.
    pub fn new(is_ordered: bool) -> Online {
        Online {
            is_ordered,
            sequences: BTreeMap::new(),
            broken: None,
        }
    }

    /// Returns the highest number of a sequence that a caller received.
    pub fn highest(&self, sequence: (u64, u64)) -> u64 {
        self.sequences
            .get(&sequence)
            .map_or(0, |given| given.highest)
    }

    /// Judges the answer to a call. `floor` is the highest number of the sequence that a caller had
    /// received when the call began.
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
            // Numbers that are handed out later are above it.
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
