//! Bugs that are planted on purpose, and how many seeds find them: the proof that the simulation
//! detects bugs.

mod plan_shapes;

use std::process::ExitCode;

use seqsvr_core::sim::{hash_text, mix_bits};

use crate::plan::{FaultClass, RunPlan, draw_plan_with_classes};
use crate::random_stream::RandomStream;
use crate::runner::run_plan_in_thread;
use plan_shapes::PlanShape;

/// Bug that `planted!` builds in.
pub struct PlantedBug {
    /// Name of the bug in the code.
    name: &'static str,
    /// Claim of the design that the bug breaks.
    claim: &'static str,
    /// Test that finds the bug.
    finder: BugFinder,
}

/// Test that finds a planted bug.
enum BugFinder {
    /// The simulation, with plans of these classes and this shape, within this number of seeds.
    /// Five times as many seeds that do not find it are a failure.
    Simulation(&'static [FaultClass], PlanShape, u64),
    /// A rule of the model (`docs/dev/model.md`), because the schedule is too rare here or no judge
    /// sees what it breaks.
    Model(&'static str),
    /// A test on real files, because the simulation has no such fault.
    Test(&'static str),
}

use BugFinder::{Model, Simulation, Test};
use FaultClass::{
    Clock, Disk, Flap, Flood, Genesis, Machine, Members, Net, Operations, Process, Remake,
};

/// All planted bugs.
const BUGS: &[PlantedBug] = &[
    PlantedBug {
        name: "LeaseFromAnswer",
        claim: "A lease is counted from a clock read before the renewal was sent",
        finder: Simulation(&[Net, Process], plan_shapes::pause_and_partition_alloc, 40),
    },
    PlantedBug {
        name: "ShortTakeoverWait",
        claim: "A session is expired only after W = 1.25 D of silence",
        finder: Simulation(&[Clock, Net], plan_shapes::drift_clocks, 10),
    },
    PlantedBug {
        name: "SkipLeaseCheck",
        claim: "A number is answered only under a lease that holds after it was taken",
        finder: Simulation(&[Net], plan_shapes::partition_owner, 20),
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
        finder: Simulation(&[Net], plan_shapes::delay_requests, 20),
    },
    PlantedBug {
        name: "RenewWithoutConfirm",
        claim: "A renewal is confirmed by a quorum round that began after it came in",
        finder: Simulation(&[Net], plan_shapes::partition_leader, 10),
    },
    PlantedBug {
        name: "RenewWhileExpiring",
        claim: "A session that is being expired is not renewed",
        finder: Simulation(&[Net], plan_shapes::partition_until_expiry, 40),
    },
    PlantedBug {
        name: "NoWaitAfterElection",
        claim: "A new leader waits W before it expires a session that has not renewed",
        finder: Simulation(&[Process, Machine], plan_shapes::keep_as_drawn, 5),
    },
    PlantedBug {
        name: "RestartAtEveryQuorum",
        claim: "A quorum that comes and goes does not restart an arbiter's timers without bound (A2)",
        finder: Simulation(&[Flap], plan_shapes::keep_as_drawn, 2),
    },
    PlantedBug {
        name: "ShareOneQuarter",
        claim: "No class of commands waits for the log without bound (A3)",
        finder: Simulation(&[Flood], plan_shapes::keep_as_drawn, 10),
    },
    PlantedBug {
        name: "ServeStoppedSlots",
        claim: "Nothing of a slot that was stopped for a move is opened again",
        finder: Simulation(&[Operations], plan_shapes::move_slots, 20),
    },
    PlantedBug {
        name: "ForgetUnconfirmedMarks",
        claim: "A move repeats high-water marks whose Close was not answered",
        finder: Model("MoveRepeatsMarks"),
    },
    PlantedBug {
        name: "ConfirmAnyOwner",
        claim: "A strict answer is confirmed for the epoch and session of its section",
        finder: Model("StrictObject"),
    },
    PlantedBug {
        name: "AcknowledgeBeforeSync",
        claim: "An entry is acknowledged once it is durable",
        finder: Simulation(&[Machine], plan_shapes::keep_as_drawn, 5),
    },
    PlantedBug {
        name: "VoteBeforeSync",
        claim: "A vote is durable before it is given",
        finder: Simulation(&[Machine], plan_shapes::cut_power, 100),
    },
    PlantedBug {
        name: "TrustPageCache",
        claim: "What a start reads of the log is made durable first (B4)",
        finder: Simulation(&[Disk], plan_shapes::fail_syncs, 10),
    },
    PlantedBug {
        name: "TrustRows",
        claim: "Rows are used only as far as log and snapshot confirm them",
        finder: Test("swapped_dirs"),
    },
    PlantedBug {
        name: "OpenAfterRename",
        claim: "A snapshot is opened before it gets its name (B6)",
        finder: Simulation(&[Net], plan_shapes::force_snapshots, 100),
    },
    PlantedBug {
        name: "GrantFromNow",
        claim: "A grant begins at or above all ticks that were granted before",
        finder: Simulation(&[], plan_shapes::wake_paused_holder, 2),
    },
    PlantedBug {
        name: "PassGrantEnd",
        claim: "A holder that wakes after its grant has passed makes no id of its successor's ticks",
        finder: Simulation(&[], plan_shapes::wake_paused_holder, 2),
    },
    PlantedBug {
        name: "ForgetLastId",
        claim: "The ids that one client receives rise, from any server",
        finder: Simulation(&[Clock], plan_shapes::change_servers_of_ids, 10),
    },
    PlantedBug {
        name: "TrustOwnClock",
        claim: "A minority of wrong wall clocks moves the time in ids nowhere",
        finder: Simulation(&[], plan_shapes::set_wall_clock_of_leader, 2),
    },
    PlantedBug {
        name: "FoundTwice",
        claim: "A store that got its cluster from another store does not begin the log (B3)",
        finder: Simulation(&[Genesis], plan_shapes::keep_as_drawn, 100),
    },
    PlantedBug {
        name: "ForgetSenders",
        claim: "A sender is known by its incarnation, and no id is given twice (B1)",
        finder: Simulation(&[Members], plan_shapes::reuse_store_id, 10),
    },
    PlantedBug {
        name: "TrustCopies",
        claim: "A copy of a data directory takes no part (B1)",
        finder: Simulation(&[Members], plan_shapes::copy_store, 20),
    },
    PlantedBug {
        name: "ForwardAnyCluster",
        claim: "An AllocSvr passes on no numbers of another cluster (A1 b)",
        finder: Simulation(&[Remake], plan_shapes::remake_cluster, 20),
    },
    PlantedBug {
        name: "NameNoCluster",
        claim: "An AllocSvr belongs to one cluster for its life (A1 c)",
        finder: Simulation(&[Remake], plan_shapes::remake_cluster, 10),
    },
    PlantedBug {
        name: "ForgetFailedStores",
        claim: "A store that failed is tried again only after each other known store",
        finder: Simulation(&[Net], plan_shapes::isolate_follower_of_dead_leader, 2),
    },
    PlantedBug {
        name: "TrustAnySender",
        claim: "An AllocSvr speaks only for the slots of its own session",
        finder: Simulation(&[Net], plan_shapes::partition_owner_beside_rogue, 5),
    },
];

impl PlantedBug {
    /// Searches plans for the bug. Returns a line that says how it was found.
    ///
    /// # Errors
    /// If no seed finds the bug, or the plan that finds it fails without the bug too.
    fn search_seeds(&self, base: &str, faults_ms: u64) -> Result<String, String> {
        let (classes, shape, seeds) = match self.finder {
            Model(rule) => {
                return Ok(format!("left to the rule {rule} of `cargo xtask model`"));
            }
            Test(tests) => {
                return Ok(format!("left to the tests {tests} of seqsvr-raft"));
            }
            Simulation(classes, shape, seeds) => (classes, shape, seeds),
        };
        let seed_base = mix_bits(hash_text(base), hash_text(self.name));
        for n in 0..5 * seeds {
            let seed = mix_bits(seed_base, n);
            let mut plan = draw_plan_with_classes(seed, faults_ms, classes);
            shape(&mut RandomStream::new(seed, "shape"), &mut plan);
            plan.planted = vec![self.name.to_owned()];
            let Some(broken_rule) = first_broken_rule(&plan) else {
                continue;
            };
            plan.planted.clear();
            return match first_broken_rule(&plan) {
                Some(broken_rule) => {
                    let plan = serde_json::to_string(&plan).unwrap_or_default();
                    Err(format!("fails without it too: {broken_rule}\n{plan}"))
                }
                None => Ok(format!("found by seed {} of {seeds}: {broken_rule}", n + 1)),
            };
        }
        Err(format!("NOT FOUND in {} seeds: {}", 5 * seeds, self.claim))
    }
}

fn first_broken_rule(plan: &RunPlan) -> Option<String> {
    match run_plan_in_thread(plan, false) {
        Ok(outcome) => outcome.broken_rules.into_iter().next(),
        Err(text) => Some(text),
    }
}

/// Searches for each planted bug, or for the one named `only`. Fails if a bug is not found.
pub fn find_planted_bugs(only: Option<&str>, base: &str, faults_ms: u64) -> ExitCode {
    let is_selected = |bug: &&PlantedBug| only.is_none_or(|name| name == bug.name);
    let mut missed_count = 0;
    let mut searched_count = 0;
    for bug in BUGS.iter().filter(is_selected) {
        searched_count += 1;
        match bug.search_seeds(base, faults_ms) {
            Ok(line) => println!("{:<22} {line}", bug.name),
            Err(line) => {
                missed_count += 1;
                println!("{:<22} {line}", bug.name);
            }
        }
    }
    println!("{searched_count} planted bugs, {missed_count} not found");
    match missed_count == 0 && searched_count > 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
