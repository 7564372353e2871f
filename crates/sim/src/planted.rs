//! Bugs that are planted on purpose, and how many seeds find them: the proof that the simulation
//! detects bugs.

mod shapes;

use std::process::ExitCode;

use seqsvr_core::sim::{hash, mix};

use crate::plan::{Class, Draw, Plan};
use crate::run::run_apart;
use shapes::Shape;

/// Bug that `planted!` builds in.
pub struct PlantedBug {
    /// Name of the bug in the code.
    name: &'static str,
    /// Claim of the design that the bug breaks.
    claim: &'static str,
    /// Test that finds the bug.
    finder: Finder,
}

/// Test that finds a planted bug.
enum Finder {
    /// The simulation, with plans of these classes and this shape, within this number of seeds.
    /// Five times as many seeds that do not find it are a failure.
    Simulation(&'static [Class], Shape, u64),
    /// A rule of the model (`docs/model.md`), because the schedule is too rare here or no judge
    /// sees what it breaks.
    Model(&'static str),
    /// A test on real files, because the simulation has no such fault.
    Test(&'static str),
}

use Class::{
    Clock, Disk, Flap, Flood, Genesis, Machine, Members, Net, Operations, Process, Remake,
};
use Finder::{Model, Simulation, Test};

/// All planted bugs.
const BUGS: &[PlantedBug] = &[
    PlantedBug {
        name: "LeaseFromAnswer",
        claim: "A lease is counted from a clock read before the renewal was sent",
        finder: Simulation(&[Net, Process], shapes::paused_and_cut_off, 40),
    },
    PlantedBug {
        name: "ShortTakeoverWait",
        claim: "A session is expired only after W = 1.25 D of silence",
        finder: Simulation(&[Clock, Net], shapes::drifting, 10),
    },
    PlantedBug {
        name: "SkipLeaseCheck",
        claim: "A number is answered only under a lease that holds after it was taken",
        finder: Simulation(&[Net], shapes::owner_cut_off, 20),
    },
    PlantedBug {
        name: "ExpireAnyTerm",
        claim: "An expiry that was decided in an earlier term has no effect",
        finder: Model("ExpireTerm"),
    },
    PlantedBug {
        name: "OpenAnyGeneration",
        claim: "An Open names the generation that it follows",
        finder: Model("OpenExpected"),
    },
    PlantedBug {
        name: "CloseAnyGeneration",
        claim: "A Close or Raise names its generation, and its slot's epoch",
        finder: Simulation(&[Net], shapes::late_requests, 20),
    },
    PlantedBug {
        name: "RenewWithoutConfirm",
        claim: "A renewal is confirmed by a quorum round that began after it came in",
        finder: Simulation(&[Net], shapes::leader_cut_off, 10),
    },
    PlantedBug {
        name: "RenewWhileExpiring",
        claim: "A session that is being expired is not renewed",
        finder: Simulation(&[Net], shapes::expired_late, 40),
    },
    PlantedBug {
        name: "NoWaitAfterElection",
        claim: "A new leader waits W before it expires a session that it has not heard of",
        finder: Simulation(&[Process, Machine], shapes::as_drawn, 5),
    },
    PlantedBug {
        name: "RestartAtEveryQuorum",
        claim: "A quorum that comes and goes does not restart an arbiter's timers without bound (A2)",
        finder: Simulation(&[Flap], shapes::as_drawn, 2),
    },
    PlantedBug {
        name: "ShareOneQuarter",
        claim: "No class of commands waits for the log without bound (A3)",
        finder: Simulation(&[Flood], shapes::as_drawn, 10),
    },
    PlantedBug {
        name: "ServeStoppedSlots",
        claim: "Nothing of a slot that was stopped for a move is opened again",
        finder: Simulation(&[Operations], shapes::moves, 20),
    },
    PlantedBug {
        name: "ForgetUnsureFinals",
        claim: "A move repeats finals whose Close was not answered",
        finder: Model("MoveRepeatsFinals"),
    },
    PlantedBug {
        name: "ConfirmAnyOwner",
        claim: "A strict answer is confirmed for the epoch and session of its section",
        finder: Model("StrictObject"),
    },
    PlantedBug {
        name: "AcknowledgeBeforeSync",
        claim: "An entry is acknowledged once it is durable",
        finder: Simulation(&[Machine], shapes::as_drawn, 1),
    },
    PlantedBug {
        name: "VoteBeforeSync",
        claim: "A vote is durable before it is given",
        finder: Simulation(&[Machine], shapes::power_cuts, 100),
    },
    PlantedBug {
        name: "TrustPageCache",
        claim: "What a start reads of the log is made durable first (B4)",
        finder: Simulation(&[Disk], shapes::failing_syncs, 10),
    },
    PlantedBug {
        name: "TrustRows",
        claim: "Rows are used only as far as log and snapshot bear them out",
        finder: Test("disks_swapped"),
    },
    PlantedBug {
        name: "OpenAfterRename",
        claim: "A snapshot is opened before it gets its name (B6)",
        finder: Simulation(&[Net], shapes::snapshots, 100),
    },
    PlantedBug {
        name: "FoundTwice",
        claim: "A store that got its cluster from another store does not begin the log (B3)",
        finder: Simulation(&[Genesis], shapes::as_drawn, 100),
    },
    PlantedBug {
        name: "ForgetSenders",
        claim: "A sender is known by its incarnation, and no id is given twice (B1)",
        finder: Simulation(&[Members], shapes::reused_id, 10),
    },
    PlantedBug {
        name: "TrustCopies",
        claim: "A copy of a data directory takes no part (B1)",
        finder: Simulation(&[Members], shapes::copied, 20),
    },
    PlantedBug {
        name: "ForwardAnyCluster",
        claim: "An AllocSvr passes on no numbers of another cluster (A1 b)",
        finder: Simulation(&[Remake], shapes::remade, 20),
    },
    PlantedBug {
        name: "NameNoCluster",
        claim: "An AllocSvr belongs to one cluster for its life (A1 c)",
        finder: Simulation(&[Remake], shapes::remade, 10),
    },
];

impl PlantedBug {
    /// Searches plans for the bug. Returns a line that says how it was found.
    ///
    /// # Errors
    /// If no seed finds the bug, or the plan that finds it fails without the bug too.
    fn find(&self, base: &str, faults_ms: u64) -> Result<String, String> {
        let (classes, shape, seeds) = match self.finder {
            Model(rule) => {
                return Ok(format!("left to the rule {rule} of `cargo xtask model`"));
            }
            Test(tests) => {
                return Ok(format!("left to the tests {tests} of seqsvr-raft"));
            }
            Simulation(classes, shape, seeds) => (classes, shape, seeds),
        };
        let begin = mix(hash(base), hash(self.name));
        for n in 0..5 * seeds {
            let seed = mix(begin, n);
            let mut plan = Plan::draw_in(seed, faults_ms, classes);
            shape(&mut Draw::new(seed, "shape"), &mut plan);
            plan.planted = vec![self.name.to_owned()];
            let Some(how) = first_broken(&plan) else {
                continue;
            };
            plan.planted.clear();
            return match first_broken(&plan) {
                Some(how) => {
                    let plan = serde_json::to_string(&plan).unwrap_or_default();
                    Err(format!("fails without it too: {how}\n{plan}"))
                }
                None => Ok(format!("found by seed {} of {seeds}: {how}", n + 1)),
            };
        }
        Err(format!("NOT FOUND in {} seeds: {}", 5 * seeds, self.claim))
    }
}

fn first_broken(plan: &Plan) -> Option<String> {
    match run_apart(plan, false) {
        Ok(outcome) => outcome.broken.into_iter().next(),
        Err(text) => Some(text),
    }
}

/// Searches for each planted bug, or for the one named `only`. Fails if a bug is not found.
pub fn find_planted(only: Option<&str>, base: &str, faults_ms: u64) -> ExitCode {
    let wanted = |bug: &&PlantedBug| only.is_none_or(|name| name == bug.name);
    let mut missed = 0;
    let mut looked = 0;
    for bug in BUGS.iter().filter(wanted) {
        looked += 1;
        match bug.find(base, faults_ms) {
            Ok(line) => println!("{:<22} {line}", bug.name),
            Err(line) => {
                missed += 1;
                println!("{:<22} {line}", bug.name);
            }
        }
    }
    println!("{looked} planted bugs, {missed} not found");
    match missed == 0 && looked > 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
