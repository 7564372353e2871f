//! Plays each statement of `docs/guide/numbers.md`: which number comes next after which event.
//!
//! The words of the page stand before the steps that play them, so a changed page needs a changed
//! test.

use std::ops::RangeInclusive;

use redis::{Cmd, FromRedisValue};
use rustix::process::Signal;
use seqsvr_client::{Client, ClientOptions};
use seqsvr_test_support::process::{ServerProcess, free_ports, run_command};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

const PAGE: &str = include_str!("../../../docs/guide/numbers.md");
/// Timeout of a command: longer than the takeover wait of the longest lease here.
const TIMEOUT: &str = "60s";
/// Step of `default`.
const STEP: u64 = 10_000;

/// Asserts that the page has these words. The steps after it play them.
fn assert_page_says(words: &str) {
    assert!(
        PAGE.contains(words),
        "docs/guide/numbers.md does not say: {words}"
    );
}

/// Client commands at these servers.
struct Commands {
    servers: String,
}

impl Commands {
    fn new(servers: &[String]) -> Commands {
        let servers = servers.join(",");
        Commands { servers }
    }

    /// Runs a command that must succeed, and returns the last line of its output.
    async fn run(&self, line: &str) -> String {
        let connection = ["--server", &self.servers, "--timeout", TIMEOUT];
        let words = line.split(' ').chain(connection);
        let output = run_command(&words.collect::<Vec<_>>()).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        let output = String::from_utf8(output.stdout).unwrap();
        output.lines().last().unwrap_or_default().to_owned()
    }

    /// Runs a command that prints a number last.
    async fn number(&self, line: &str) -> u64 {
        let last = self.run(line).await;
        last.parse().unwrap_or_else(|_| panic!("{line}: {last}"))
    }

    /// Returns the slot of a uid and the name of its owner.
    async fn route(&self, key: &str) -> (String, String) {
        let route = self.run(&format!("route {key}")).await;
        let words: Vec<&str> = route.split_whitespace().collect();
        let after = |name| {
            let at = words.iter().position(|word| *word == name).unwrap();
            words[at + 1].to_owned()
        };
        (after("slot"), after("owner"))
    }

    /// Moves the slot of a key to the other one of the AllocSvrs a1 and a2. Returns its line.
    async fn move_to_the_other(&self, key: &str) -> String {
        let (slot, owner) = self.route(key).await;
        let other = if owner == "a1" { "a2" } else { "a1" };
        self.run(&format!("slot move {slot} {other}")).await
    }
}

/// Sends one command to a Redis endpoint.
fn redis_command<T: FromRedisValue>(port: u16, line: &str) -> T {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
    let mut words = line.split(' ');
    let mut command: Cmd = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command
        .query(&mut client.get_connection().unwrap())
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_moves_continue_above_the_highest_number_of_the_section() {
    // No slot moves by itself before the end of the first lease.
    let mut cluster = ProcessCluster::start(1, 2, 30_000).await;
    let commands = Commands::new(&cluster.alloc_addresses);

    assert_page_says("each sequence counts by itself");
    assert_page_says("one more (or one stride more) than the last");
    assert_eq!(commands.number("next 1").await, 1);
    assert_eq!(commands.number("next 1").await, 2);
    assert_eq!(commands.number("next 2 --count 5000").await, 5_000);
    commands
        .run("namespace create threes --stride 3 --offset 1")
        .await;
    assert_eq!(commands.number("next 1 -n threes").await, 1);
    assert_eq!(commands.number("next 1 -n threes").await, 4);
    assert_page_says("namespace create orders --section-size 1");
    assert_page_says("A planned move or a restart then skips nothing at all");
    commands
        .run("namespace create orders --section-size 1")
        .await;
    assert_eq!(commands.number("next 1 -n orders").await, 1);
    assert_eq!(commands.number("next 2 -n orders --count 700").await, 700);

    assert_page_says("continues **all** its sequences above that one number");
    assert_page_says("$ seqsvr slot move 312 a2");
    assert_eq!(commands.route("1").await.0, "312");
    let moved = commands.move_to_the_other("1").await;
    assert!(moved.contains(" owns slot 312 at epoch "), "{moved}");
    assert_eq!(commands.number("next 1").await, 5_001);
    assert_eq!(commands.number("next 3").await, 5_001);
    commands.move_to_the_other("1 -n orders").await;
    assert_eq!(commands.number("next 1 -n orders").await, 2);

    assert_page_says("`slot drain`");
    assert_eq!(commands.number("next 3 --count 10").await, 5_011);
    let (_, drained) = commands.route("1").await;
    commands.run(&format!("slot drain {drained}")).await;
    assert_eq!(commands.number("next 4").await, 5_012);
    let cancel = format!("slot drain {drained} --cancel");
    commands.run(&cancel).await;

    assert_page_says("stopped by a signal and started again");
    let (_, owner) = commands.route("1").await;
    stop_alloc(&mut cluster, &owner).await;
    assert_eq!(commands.number("next 5").await, 5_013);
    cluster.allocs[index_of(&owner)].restart();
    let admin = cluster.new_client().admin();
    wait_until("both sessions", TEST_TIMEOUT, async || {
        let status = admin.cluster_status().await.ok()?;
        (status.sessions.len() == 2).then_some(())
    })
    .await;
    stop_alloc(&mut cluster, &drained).await;
    assert_eq!(commands.number("next 5").await, 5_014);
    assert_eq!(commands.number("next 1 -n orders").await, 3);
    assert_eq!(commands.number("next 2 -n orders").await, 701);

    assert_page_says("The last number handed out, if the sequence was used since");
    assert_eq!(commands.run("current 5").await, "5014");
    assert_page_says("Otherwise the upper bound of the section");
    assert_eq!(commands.run("current 1").await, "at most 5013");
    assert_page_says("also for a key that was never used");
    let port = cluster.endpoint_ports[index_of(&owner)].redis;
    assert_eq!(redis_command::<u64>(port, "GET @default/99"), 5_013);
    assert_page_says("a first number need not be 1");
    assert_eq!(redis_command::<u64>(port, "INCR @default/99"), 5_014);
}

/// Stops an AllocSvr in order.
async fn stop_alloc(cluster: &mut ProcessCluster, name: &str) {
    let alloc = &mut cluster.allocs[index_of(name)];
    let status = alloc.stop(TEST_TIMEOUT).await;
    assert!(status.success(), "{status}");
}

/// Returns the index of the AllocSvr a1 or a2.
fn index_of(name: &str) -> usize {
    usize::from(name == "a2")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequence_continues_above_the_window_after_its_lease_expired() {
    assert_page_says("a lease that expired");
    let cluster = ProcessCluster::start(1, 1, 500).await;
    let commands = Commands::new(&cluster.alloc_addresses);
    assert_eq!(commands.number("next 1 --count 7").await, 7);
    cluster.allocs[0].signal(Signal::STOP);
    let stores = ClientOptions::new(cluster.store_addresses.iter().cloned());
    let admin = Client::new(stores).unwrap().admin();
    wait_until("the end of the lease", TEST_TIMEOUT, async || {
        let status = admin.cluster_status().await.ok()?;
        status.sessions.is_empty().then_some(())
    })
    .await;
    cluster.allocs[0].signal(Signal::CONT);
    assert_eq!(commands.number("next 1").await, STEP + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequence_continues_above_the_window_after_a_stop_without_a_store() {
    assert_page_says("a stop while no store answers");
    let mut cluster = ProcessCluster::start(1, 1, 500).await;
    let commands = Commands::new(&cluster.alloc_addresses);
    assert_eq!(commands.number("next 1 --count 7").await, 7);
    cluster.kill_store(0);
    stop_alloc(&mut cluster, "a1").await;
    cluster.stores[0].restart();
    cluster.allocs[0].restart();
    assert_eq!(commands.number("next 1").await, STEP + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn section_closed_for_idleness_or_memory_continues_above_its_highest_number() {
    assert_page_says("the section was idle, or the AllocSvr reached its budget of memory");
    for flags in [
        ["--section-idle-timeout", "100ms"],
        ["--section-memory-mib", "0"],
    ] {
        let cluster = ProcessCluster::start_with(1, 1, 3_000, &[], &flags).await;
        let commands = Commands::new(&cluster.alloc_addresses);
        assert_eq!(commands.number("next 2 --count 500").await, 500);
        wait_until("the section to be closed", TEST_TIMEOUT, async || {
            (commands.run("current 2").await == "at most 500").then_some(())
        })
        .await;
        assert_eq!(commands.number("next 1").await, 501, "{flags:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_killed_raised_and_restored_sequences_jump_as_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let ports = free_ports(2);
    let args = format!(
        "dev --redis-port 0 --http-port 0 --port {ports} --store-port {} --data-dir {}",
        ports + 1,
        path("data")
    );
    let args = args.split(' ').map(str::to_owned).collect();
    let mut dev = ServerProcess::start(dir.path(), "dev", args);
    let address = format!("127.0.0.1:{ports}");
    let commands = Commands::new(std::slice::from_ref(&address));

    assert_page_says("an AllocSvr or `dev` that is stopped by a signal");
    assert_eq!(commands.number("next 1 --count 39").await, 39);
    assert_eq!(commands.number("next 2 --count 5400").await, 5_400);
    interrupt(&mut dev).await;
    assert_eq!(commands.number("next 1").await, 5_401);

    assert_page_says("a crash: `kill -9`");
    assert_page_says("the default step up to 15,000 above the highest number used");
    crash(&mut dev);
    let after_kill = commands.number("next 1").await;
    assert_eq!(after_kill, 5_400 + STEP + 1);
    let used = commands.number("next 1 --count 5100").await;
    let admin = Client::new(ClientOptions::new([address.clone()]))
        .unwrap()
        .admin();
    wait_until("the next raise", TEST_TIMEOUT, async || {
        let status = admin.node_status(&address).await.ok()?;
        (status.counters["raises"] >= 1).then_some(())
    })
    .await;
    crash(&mut dev);
    let after_kill = commands.number("next 1").await;
    assert_jump(after_kill - used, 10_001..=15_001);

    assert_page_says("with `--step 100 --step-max 100`: a crash skips at most 150");
    commands
        .run("namespace create even --step 100 --step-max 100")
        .await;
    for count in [30, 77, 100] {
        let next = format!("next 1 -n even --count {count}");
        let used = commands.number(&next).await;
        crash(&mut dev);
        assert_jump(commands.number("next 1 -n even").await - used, 1..=151);
    }

    assert_page_says("N + 1 for that uid at once; for its neighbors after the next reload");
    let neighbor = commands.number("next 5").await;
    commands.run("raise-to 4 800000000").await;
    assert_eq!(commands.number("next 4").await, 800_000_001);
    assert_eq!(commands.number("next 5").await, neighbor + 1);
    interrupt(&mut dev).await;
    assert_eq!(commands.number("next 5").await, 800_000_002);

    assert_page_says("above its bound in the backup and `--max-seq-margin`");
    assert_page_says("above `--start-margin` in a section first used after the backup");
    commands.run(&format!("backup {}", path("b"))).await;
    let stopped = dev.stop(TEST_TIMEOUT).await;
    assert!(stopped.success(), "{stopped}");
    let bound = 800_000_001 + STEP;
    let restored = start_restored(dir.path(), &path("b")).await;
    let commands = Commands::new(std::slice::from_ref(&restored.2));
    assert_eq!(commands.number("next 9").await, bound + 1_000_000 + 1);
    let unused = commands.number("next 500000").await;
    assert_jump(unused - 2_000_000, 1..=2);
}

/// Stops `dev` as Ctrl-C does, and starts it again.
async fn interrupt(dev: &mut ServerProcess) {
    dev.signal(Signal::INT);
    let status = dev.wait_for_exit(TEST_TIMEOUT).await;
    assert!(status.success(), "{status}");
    dev.restart();
}

/// Kills `dev` with SIGKILL, and starts it again.
fn crash(dev: &mut ServerProcess) {
    dev.kill();
    dev.restart();
}

/// Asserts that the next number is this far above the highest number used.
fn assert_jump(jump: u64, bounds: RangeInclusive<u64>) {
    assert!(bounds.contains(&jump), "{jump} is not in {bounds:?}");
}

/// Restores a backup with margins of 1,000,000 and 2,000,000. Starts a store and an AllocSvr, and
/// returns them with the address of the AllocSvr.
async fn start_restored(
    dir: &std::path::Path,
    backup: &str,
) -> (ServerProcess, ServerProcess, String) {
    let (ports, data) = (free_ports(2), dir.join("restored"));
    let store = format!("127.0.0.1:{ports}");
    let place = format!("--id 1 --listen {store} --data-dir {}", data.display());
    let margins = "--max-seq-margin 1000000 --start-margin 2000000 --epoch-margin 1000";
    let restore = format!("restore {backup} {place} {margins} --ids-from 2090-01-01");
    let output = run_command(&restore.split(' ').collect::<Vec<_>>()).await;
    assert!(output.status.success(), "{output:?}");
    let address = format!("127.0.0.1:{}", ports + 1);
    let start = |name, line: String| {
        let args = line.split(' ').map(str::to_owned).collect();
        ServerProcess::start(dir, name, args)
    };
    let alloc = format!("alloc --name a1 --listen {address} --stores {store}");
    let store = start("restored-store", format!("store {place}"));
    (store, start("restored-alloc", alloc), address)
}
