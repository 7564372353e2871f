//! `cargo xtask conformance`: plays one program with real Redis clients against Valkey and against
//! a `dev` server, and compares type, value and exception of every reply.
//!
//! The program is `program.txt`. `docs/guide/redis.md` has the table of the differences on purpose:
//! each other difference fails, and so does a row of the table that no reply needs. The clients are
//! pinned, in environments of their own under `target/`. Then it runs holders of ids in Python.

mod comparison;
mod difference_table;
mod holders;
mod players;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use holders::check_holders;

use comparison::{UnexpectedDifference, compare_replies};
use difference_table::DifferenceTable;
use players::{ClientLibraries, PinnedClient, PlayedReply, Player, select_clients};
use program::ProgramStep;
use seqsvr_test_support::process::release_binary;

use crate::compare::CompareError;
use crate::compare::systems::redis;
use crate::dev_server::DevServer;
use crate::valkey;
use crate::venv::VenvError;

/// Maximum number of times that a client plays the program.
const ATTEMPTS_MAX: usize = 3;

/// Options of the run.
#[derive(Debug)]
pub struct ConformanceOptions {
    /// Binary to test; None: build the release binary.
    pub binary: Option<PathBuf>,
    /// Only the clients whose name contains one of these texts; empty: all.
    pub only: Vec<String>,
    /// Maximum time of the clients. A run that takes longer fails.
    pub timeout: Duration,
}

/// Plays the program with the clients. Returns false if replies differ as the table does not
/// expect, or if the table expects what does not occur.
///
/// # Errors
/// No client has a text of `only`. A server or a client cannot be installed although the package
/// index answers, does not start, or does not play the whole program.
pub fn compare_clients(options: &ConformanceOptions) -> Result<bool, String> {
    let selected = select_clients(&options.only)?;
    let installed = valkey::install_server();
    let installed = installed.and_then(|valkey| Ok((valkey, ClientLibraries::install()?)));
    let (valkey, libraries) = match installed {
        Ok(installed) => installed,
        Err(VenvError::Unavailable(why)) => {
            println!("skipped: conformance: {why}");
            return Ok(true);
        }
        Err(VenvError::Failed(why)) => return Err(why),
    };
    let (mut clients, mut has_skipped) = (Vec::new(), !options.only.is_empty());
    for client in selected {
        match libraries.skip_reason(client) {
            None => clients.push(client),
            Some(why) => {
                println!("skipped: conformance: {}: {why}", client.label());
                has_skipped = true;
            }
        }
    }
    let table = DifferenceTable::load()?;
    let binary = options.binary.as_deref();
    let server = DevServer::start(binary.unwrap_or_else(|| release_binary()))?;
    // One database, as seqsvr has one.
    let valkey = redis::start_server(&valkey, &["--databases", "1", "--appendonly", "no"]);
    let valkey = valkey.map_err(CompareError::into_text)?;
    let valkey_address = valkey.address.parse();
    let steps = program::load_program()?;
    let runner = ClientRunner {
        libraries: &libraries,
        server: &server,
        valkey: valkey_address.map_err(|e| format!("{}: {e}", valkey.address))?,
        steps: &steps,
        deadline: Instant::now() + options.timeout,
    };
    let result = play(&clients, &runner, &table)?;
    print_differences(&result.differences);
    let unseen = match has_skipped {
        true => Vec::new(),
        false => table.unseen_commands(&result.seen),
    };
    for command in &unseen {
        println!("redis.md: no reply to `{command}` differs as its row says");
    }
    Ok(result.differences.is_empty() && unseen.is_empty())
}

/// What all clients saw.
#[derive(Default)]
struct RunResult {
    /// Differences that are not expected, and the clients that saw each.
    differences: BTreeMap<UnexpectedDifference, Vec<String>>,
    /// Differences of the table that a client saw.
    seen: BTreeSet<usize>,
}

/// What all clients play, and against what.
struct ClientRunner<'a> {
    libraries: &'a ClientLibraries,
    server: &'a DevServer,
    valkey: SocketAddr,
    steps: &'a [ProgramStep],
    /// Time at which all clients must have ended.
    deadline: Instant,
}

impl ClientRunner<'_> {
    /// Starts a client against Valkey and against seqsvr. Each attempt has keys of its own.
    fn start(&self, client: &PinnedClient, attempt: usize) -> Result<[Player; 2], String> {
        let dir = self.server.dir.path();
        let start = |address| {
            let libraries = self.libraries;
            libraries.start_player(client, attempt, address, self.steps, dir)
        };
        Ok([start(self.valkey)?, start(self.server.redis_address)?])
    }

    /// Plays the program. Returns the replies of Valkey and of seqsvr.
    ///
    /// A server with a slow disk answers `TRYAGAIN`, which says nothing about conformance: the
    /// client then plays the program again.
    fn play(&self, client: &PinnedClient) -> Result<[Vec<PlayedReply>; 2], String> {
        let mut attempt = 0;
        loop {
            let [valkey, seqsvr] = self.start(client, attempt)?;
            let failed = |e| format!("{}: {e}", client.label());
            let valkey = valkey.wait(self.deadline).map_err(failed)?;
            let seqsvr = seqsvr.wait(self.deadline).map_err(failed)?;
            attempt += 1;
            let is_transient = seqsvr.iter().any(|reply| reply.text.contains("TRYAGAIN"));
            if !is_transient || attempt == ATTEMPTS_MAX {
                return Ok([valkey, seqsvr]);
            }
            println!("{}: plays again after TRYAGAIN", client.label());
        }
    }
}

/// Plays the program with one client after the other, and compares the replies of each.
///
/// Not at once: a read of a key that was never used, while another client opens its section, is an
/// upper bound.
fn play(
    clients: &[&PinnedClient],
    runner: &ClientRunner<'_>,
    table: &DifferenceTable,
) -> Result<RunResult, String> {
    let started = Instant::now();
    let mut result = RunResult::default();
    for client in clients {
        let [valkey, seqsvr] = runner.play(client)?;
        let comparison = compare_replies(runner.steps, &valkey, &seqsvr, table);
        println!(
            "{}: {} replies equal, {} differ on purpose, {} differ",
            client.label(),
            comparison.equal,
            comparison.on_purpose,
            comparison.unexpected.len()
        );
        result.seen.extend(comparison.seen);
        for difference in comparison.unexpected {
            let seen_by = result.differences.entry(difference).or_default();
            seen_by.push(client.label());
        }
    }
    let count = clients.len();
    println!("conformance: {count} clients in {:.1?}", started.elapsed());
    Ok(result)
}

/// Prints each difference with the clients that saw it.
fn print_differences(differences: &BTreeMap<UnexpectedDifference, Vec<String>>) {
    for (difference, clients) in differences {
        println!("\n{}", difference.command);
        println!("  valkey  {}", difference.valkey);
        println!("  seqsvr  {}", difference.seqsvr);
        println!("  seen by {}", clients.join(", "));
    }
}

/// The stage of `.ci/run`. It is a test, because a build of the command would compile its
/// dependencies once more.
#[cfg(test)]
#[test]
#[ignore = "fetches packages from the network; `.ci/run` runs it as a stage of its own"]
fn clients_get_the_replies_of_valkey() {
    let options = ConformanceOptions {
        binary: None,
        only: Vec::new(),
        timeout: Duration::from_secs(90),
    };
    assert_eq!(compare_clients(&options), Ok(true));
}
