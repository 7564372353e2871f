//! Judges every answer when it arrives, so that the last events of the trace explain a failure.
//! `seqsvr-check` judges all answers again at the end.

use std::collections::BTreeMap;

use seqsvr_check::CallAnswer;

/// Judge of all answers.
pub struct AnswerJudge {
    /// Whether clocks are bounded, so that answers to calls that are not strict are in order too.
    has_bounded_clocks: bool,
    /// Numbers handed out, by cluster and uid.
    sequences: BTreeMap<(u64, u64), IssuedNumbers>,
    /// First broken rule.
    pub broken_rule: Option<String>,
}

#[derive(Default)]
struct IssuedNumbers {
    /// Ranges handed out: last number by first number.
    ranges: BTreeMap<u64, u64>,
    highest: u64,
}

impl AnswerJudge {
    /// Creates a judge without answers.
    pub fn new(has_bounded_clocks: bool) -> AnswerJudge {
        AnswerJudge {
            has_bounded_clocks,
            sequences: BTreeMap::new(),
            broken_rule: None,
        }
    }

    /// Returns the highest number of a sequence that a caller received.
    pub fn highest_received(&self, sequence: (u64, u64)) -> u64 {
        self.sequences
            .get(&sequence)
            .map_or(0, |issued| issued.highest)
    }

    /// Judges the answer to a call. `floor` is the highest number of the sequence that a caller had
    /// received when the call began.
    pub fn judge_answer(
        &mut self,
        now: u64,
        sequence: (u64, u64),
        floor: u64,
        is_strict: bool,
        answer: &CallAnswer,
    ) {
        let must_follow = self.has_bounded_clocks || is_strict;
        let issued = self.sequences.entry(sequence).or_default();
        let failure = match *answer {
            CallAnswer::Next { first, last, .. } => {
                let before = issued.ranges.range(..=last).next_back();
                let is_duplicate = before.is_some_and(|(_, end)| *end >= first);
                issued.ranges.insert(first, last);
                issued.highest = issued.highest.max(last);
                match (is_duplicate, must_follow && first <= floor) {
                    (true, _) => Some(format!("{first} to {last} was handed out before")),
                    (_, true) => Some(format!("{first} is not above {floor}")),
                    _ => None,
                }
            }
            CallAnswer::Exact(n) if self.has_bounded_clocks && n < floor => {
                Some(format!("exactly {n}, but {floor} was handed out"))
            }
            CallAnswer::AtMost(n) if self.has_bounded_clocks && n < floor => {
                Some(format!("at most {n}, but {floor} was handed out"))
            }
            CallAnswer::Never if self.has_bounded_clocks && floor > 0 => {
                Some(format!("never, but {floor} was handed out"))
            }
            // Numbers that are handed out later are above it.
            CallAnswer::RaiseTo { to, .. } => {
                issued.highest = issued
                    .highest
                    .max(if self.has_bounded_clocks { to } else { 0 });
                None
            }
            _ => None,
        };
        if let (None, Some(what)) = (&self.broken_rule, failure) {
            self.broken_rule = Some(format!("at {now}: uid {}: {what}", sequence.1));
        }
    }
}
