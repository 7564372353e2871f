//! Bugs that are planted on purpose, and how many seeds it takes to find them: the proof that the simulation sees.

use std::process::ExitCode;

use seqsvr_core::sim::{hash, mix};

use crate::plan::{Class, Plan};
use crate::run::run_apart;

/// A bug that `planted!` builds in.
pub struct PlantedBug {
    /// Its name in the code.
    pub name: &'static str,
    /// What the design claims, and the bug breaks.
    pub claim: &'static str,
    /// Classes of faults among which it is looked for.
    pub classes: &'static [Class],
    /// Seeds that it took, rounded up. Five times as many without a find are a failure.
    pub seeds: u64,
}

use Class::{Clock, Disk, Machine, Net, Operations, Process};

/// All planted bugs.
pub const BUGS: &[PlantedBug] = &[
    PlantedBug {
        name: "LeaseFromAnswer",
        claim: "A lease is counted from a clock read before the renewal was sent",
        classes: &[Net, Process],
        seeds: 40,
    },
    PlantedBug {
        name: "ShortTakeoverWait",
        claim: "A session is expired only after W = 1.25 D of silence",
        classes: &[Clock, Process],
        seeds: 10,
    },
    PlantedBug {
        name: "SkipLeaseCheck",
        claim: "A number is answered only under a lease that holds after it was taken",
        classes: &[Net, Process],
        seeds: 20,
    },
    PlantedBug {
        name: "CheckBeforeTake",
        claim: "The clock is read after the numbers were taken",
        classes: &[Process],
        seeds: 100,
    },
    PlantedBug {
        name: "SkipTableCheck",
        claim: "The newest table is read after the numbers were taken",
        classes: &[Process, Operations],
        seeds: 100,
    },
    PlantedBug {
        name: "ExpireAnyTerm",
        claim: "An expiry that was decided in an earlier term has no effect",
        classes: &[Net, Process],
        seeds: 100,
    },
    PlantedBug {
        name: "OpenAnyGeneration",
        claim: "An Open names the generation that it follows",
        classes: &[Net, Process],
        seeds: 100,
    },
    PlantedBug {
        name: "CloseAnyGeneration",
        claim: "A Close or Raise names the generation that it is for",
        classes: &[Net, Process],
        seeds: 100,
    },
    PlantedBug {
        name: "CommandAnyEpoch",
        claim: "A section command names the epoch of its slot",
        classes: &[Net, Process],
        seeds: 20,
    },
    PlantedBug {
        name: "RenewWithoutConfirm",
        claim: "A renewal is confirmed by a quorum round that began after it came in",
        classes: &[Net, Process],
        seeds: 40,
    },
    PlantedBug {
        name: "RenewWhileExpiring",
        claim: "A session that is being expired is not renewed",
        classes: &[Net, Process],
        seeds: 100,
    },
    PlantedBug {
        name: "NoWaitAfterElection",
        claim: "A new leader waits W before it expires a session that it has not heard of",
        classes: &[Process, Machine],
        seeds: 5,
    },
    PlantedBug {
        name: "ServeStoppedSlots",
        claim: "Nothing of a slot that was stopped for a move is opened again",
        classes: &[Operations],
        seeds: 40,
    },
    PlantedBug {
        name: "ForgetUnsureFinals",
        claim: "A move repeats finals whose Close was not answered",
        classes: &[Operations, Net],
        seeds: 100,
    },
    PlantedBug {
        name: "ConfirmAnyOwner",
        claim: "A strict answer is confirmed for the epoch and session of its section",
        classes: &[Clock, Process],
        seeds: 100,
    },
    PlantedBug {
        name: "ReadByLease",
        claim: "Leadership is confirmed by a quorum, not by the leader's clock",
        classes: &[Process, Net],
        seeds: 40,
    },
    PlantedBug {
        name: "AcknowledgeBeforeSync",
        claim: "An entry is acknowledged once it is durable",
        classes: &[Machine],
        seeds: 1,
    },
    PlantedBug {
        name: "VoteBeforeSync",
        claim: "A vote is durable before it is given",
        classes: &[Machine],
        seeds: 200,
    },
    PlantedBug {
        name: "TrustPageCache",
        claim: "What a start reads of the log is made durable first (B4)",
        classes: &[Disk, Machine],
        seeds: 100,
    },
    PlantedBug {
        name: "TrustRows",
        claim: "Rows are used only as far as log and snapshot bear them out",
        classes: &[Machine],
        seeds: 40,
    },
];

/// Looks for each planted bug, or for one. Fails if one is not found.
pub fn find_planted(only: Option<&str>, base: &str, faults_ms: u64) -> ExitCode {
    let wanted = |bug: &&PlantedBug| only.is_none_or(|name| name == bug.name);
    let mut missed = 0;
    let mut looked = 0;
    for bug in BUGS.iter().filter(wanted) {
        looked += 1;
        let begin = mix(hash(base), hash(bug.name));
        let found = (0..5 * bug.seeds).find_map(|n| {
            let plan = Plan {
                planted: vec![bug.name.to_owned()],
                ..Plan::draw_in(mix(begin, n), faults_ms, bug.classes)
            };
            let broken = match run_apart(&plan, false) {
                Ok(outcome) => outcome.broken,
                Err(text) => vec![text],
            };
            Some((n + 1, broken.into_iter().next()?))
        });
        match found {
            Some((seeds, how)) => println!(
                "{:<22} found by seed {seeds} of {}: {how}",
                bug.name, bug.seeds
            ),
            None => {
                missed += 1;
                println!(
                    "{:<22} NOT FOUND in {} seeds: {}",
                    bug.name,
                    5 * bug.seeds,
                    bug.claim
                );
            }
        }
    }
    println!("{looked} planted bugs, {missed} not found");
    match missed == 0 && looked > 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
