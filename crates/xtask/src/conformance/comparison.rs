//! Compares the replies of the two servers to one client.

use std::collections::{BTreeMap, BTreeSet};

use super::difference_table::DifferenceTable;
use super::players::PlayedReply;
use super::program::{ProgramCommand, ProgramStep, StepKind};

/// Exceptions that a fault of a player raises, not a reply of a server.
const PLAYER_EXCEPTIONS: [&str; 4] = [
    "AttributeError: ",
    "NameError: ",
    "ReferenceError: ",
    "TypeError: ",
];

/// A command with different replies that the table does not expect.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnexpectedDifference {
    /// Index of the step.
    pub(super) step: usize,
    /// The command, or the whole step.
    pub(super) command: String,
    /// Reply of Valkey.
    pub(super) valkey: String,
    /// Reply of seqsvr.
    pub(super) seqsvr: String,
}

/// The result of one client.
#[derive(Debug, Default)]
pub(super) struct ClientComparison {
    /// Number of equal replies.
    pub(super) equal: usize,
    /// Number of replies that differ as the table says.
    pub(super) on_purpose: usize,
    /// Indexes of those differences in the table.
    pub(super) seen: BTreeSet<usize>,
    /// All other differences.
    pub(super) unexpected: Vec<UnexpectedDifference>,
}

/// Compares all replies to one client.
pub(super) fn compare_replies(
    steps: &[ProgramStep],
    valkey: &[PlayedReply],
    seqsvr: &[PlayedReply],
    table: &DifferenceTable,
) -> ClientComparison {
    let (valkey, seqsvr) = (group_by_step(valkey), group_by_step(seqsvr));
    let mut comparison = ClientComparison::default();
    let none = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let theirs = valkey.get(&index).unwrap_or(&none);
        let ours = seqsvr.get(&index).unwrap_or(&none);
        for (command, theirs, ours) in pair_replies(theirs, ours) {
            comparison.add((index, step), command, (theirs, ours), table);
        }
    }
    comparison
}

impl ClientComparison {
    /// Adds the replies to a command, or those to the whole step.
    fn add(
        &mut self,
        (index, step): (usize, &ProgramStep),
        command: Option<usize>,
        (valkey, seqsvr): (String, String),
        table: &DifferenceTable,
    ) {
        let is_fault = |reply: &str| PLAYER_EXCEPTIONS.iter().any(|class| reply.contains(class));
        let has_fault = is_fault(&valkey) || is_fault(&seqsvr);
        if valkey == seqsvr && !has_fault {
            self.equal += 1;
            return;
        }
        let range = command.map_or(0..step.commands.len(), |command| command..command + 1);
        let commands = &step.commands[range];
        // One of the commands explains a difference of the whole step.
        let find = |c: &ProgramCommand| table.find_expected(&c.words, &valkey, &seqsvr);
        let expected: Vec<usize> = commands.iter().flat_map(find).collect();
        if !expected.is_empty() && !has_fault {
            self.on_purpose += 1;
            self.seen.extend(expected);
        } else {
            let lines: Vec<&str> = commands.iter().map(|c| c.line.as_str()).collect();
            let head = match step.kind {
                StepKind::Call => String::new(),
                kind => format!("{}: ", kind.name()),
            };
            self.unexpected.push(UnexpectedDifference {
                step: index,
                command: head + &lines.join("; "),
                valkey,
                seqsvr,
            });
        }
    }
}

/// Pairs the replies to each command of a step. From where the two servers answered other commands,
/// the replies are one pair.
fn pair_replies(
    valkey: &[&PlayedReply],
    seqsvr: &[&PlayedReply],
) -> Vec<(Option<usize>, String, String)> {
    let both = || valkey.iter().zip(seqsvr);
    let common = both().take_while(|(a, b)| a.command == b.command).count();
    let pairs = both().take(common);
    let mut pairs: Vec<_> = pairs
        .map(|(a, b)| (a.command, a.text.clone(), b.text.clone()))
        .collect();
    let join = |replies: &[&PlayedReply]| {
        let texts: Vec<&str> = replies.iter().map(|reply| reply.text.as_str()).collect();
        texts.join("; ")
    };
    let (valkey, seqsvr) = (&valkey[common..], &seqsvr[common..]);
    if !valkey.is_empty() || !seqsvr.is_empty() {
        pairs.push((None, join(valkey), join(seqsvr)));
    }
    pairs
}

fn group_by_step(replies: &[PlayedReply]) -> BTreeMap<usize, Vec<&PlayedReply>> {
    let mut steps: BTreeMap<usize, Vec<&PlayedReply>> = BTreeMap::new();
    for reply in replies {
        steps.entry(reply.step).or_default().push(reply);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::program::parse_program;

    fn reply(command: Option<usize>, text: &str) -> PlayedReply {
        let text = text.to_owned();
        PlayedReply {
            step: 0,
            command,
            text,
        }
    }

    #[test]
    fn fault_of_a_player_is_never_equal_or_on_purpose() {
        let steps = parse_program("DEL k:a").unwrap();
        let table = DifferenceTable::load().unwrap();
        let compare = |valkey: &str, seqsvr: &str| {
            let [valkey, seqsvr] = [valkey, seqsvr].map(|text| [reply(Some(0), text)]);
            let result = compare_replies(&steps, &valkey, &seqsvr, &table);
            (result.equal, result.on_purpose, result.unexpected.len())
        };
        assert_eq!(compare("1", "1"), (1, 0, 0));
        assert_eq!(compare("1", "Error: numbers only rise"), (0, 1, 0));
        let fault = "TypeError: client.dell is not a function";
        assert_eq!(compare(fault, fault), (0, 0, 1));
        assert_eq!(compare(fault, "Error: numbers only rise"), (0, 0, 1));
    }

    #[test]
    fn replies_are_paired_while_both_servers_answer_the_same_commands() {
        let valkey = [
            reply(Some(0), "1"),
            reply(Some(1), "2"),
            reply(Some(0), "3"),
        ];
        let seqsvr = [reply(Some(0), "1"), reply(None, "error")];
        let pairs = pair_replies(&valkey.each_ref(), &seqsvr.each_ref());
        let pair = |command, a: &str, b: &str| (command, a.to_owned(), b.to_owned());
        assert_eq!(
            pairs,
            [pair(Some(0), "1", "1"), pair(None, "2; 3", "error")]
        );
        let pairs = pair_replies(&valkey.each_ref(), &[]);
        assert_eq!(pairs, [pair(None, "1; 2; 3", "")]);
        assert!(pair_replies(&[], &[]).is_empty());
    }
}
