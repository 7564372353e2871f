//! Stores and one AllocSvr as processes. The first store starts on a directory with a given state.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use seqsvr_client::{Client, ClientOptions};
use seqsvr_core::state::State;
use seqsvr_store::Options as StoreOptions;
use seqsvr_test_support::process::{ServerProcess, free_ports, release_binary};
use seqsvr_test_support::process_cluster::store_args;
use seqsvr_test_support::process_stats::ProcessStats;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Deadline of one operator call. A join takes longer and is retried.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A store of the group.
struct StoreMember {
    id: u64,
    address: String,
    /// None before the start and after the kill.
    process: Option<ServerProcess>,
}

/// The processes. A drop kills all of them.
pub(super) struct StoreGroup {
    members: Vec<StoreMember>,
    /// Process, gRPC address and HTTP port of the AllocSvr.
    alloc: Option<(ServerProcess, String, u16)>,
    // Dropped last, after the processes have ended.
    dir: TempDir,
}

impl StoreGroup {
    /// Writes the data directory of store 1, with this state.
    pub(super) async fn prepare(state: &State) -> Result<StoreGroup, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut group = StoreGroup {
            members: Vec::new(),
            alloc: None,
            dir,
        };
        let address = group.add_member(1);
        let listen = address
            .parse()
            .map_err(|_| format!("invalid address {address}"))?;
        let options = StoreOptions::new(1, listen, group.data_dir(1)).raft_options(address);
        let prepared = seqsvr_store::restore::prepare_data_dir(state, &options).await;
        prepared.map_err(|e| e.to_string())?;
        Ok(group)
    }

    fn data_dir(&self, id: u64) -> PathBuf {
        self.dir.path().join(format!("store-{id}"))
    }

    fn add_member(&mut self, id: u64) -> String {
        let address = format!("127.0.0.1:{}", free_ports(1));
        self.members.push(StoreMember {
            id,
            address: address.clone(),
            process: None,
        });
        address
    }

    /// Returns the bytes of the snapshot of store 1.
    pub(super) fn snapshot_bytes(&self) -> Result<u64, String> {
        let files = std::fs::read_dir(self.data_dir(1).join("snapshots"));
        let files = files.map_err(|e| e.to_string())?.flatten();
        Ok(files
            .flat_map(|file| file.metadata())
            .map(|m| m.len())
            .sum())
    }

    /// Starts store 1.
    pub(super) fn start_first_store(&mut self) {
        self.start_store(1);
    }

    fn start_store(&mut self, id: u64) {
        let data = self.data_dir(id).display().to_string();
        let dir = self.dir.path().to_owned();
        for member in self.members.iter_mut().filter(|m| m.id == id) {
            let args = store_args(id, &member.address, &data);
            let process = ServerProcess::start_with_binary(
                release_binary(),
                &dir,
                &format!("store-{id}"),
                args,
            );
            member.process = Some(process);
        }
    }

    /// Makes a client of the stores that run.
    pub(super) fn new_client(&self) -> Result<Client, String> {
        let running = self.members.iter().filter(|m| m.process.is_some());
        let options = ClientOptions::new(running.map(|m| m.address.clone()));
        Client::new(options.with_deadline(CALL_TIMEOUT)).map_err(|e| e.to_string())
    }

    /// Returns the ids, addresses and process ids of the stores that run.
    pub(super) fn running_stores(&self) -> Vec<(u64, String, rustix::process::Pid)> {
        let running = self.members.iter().filter_map(|m| {
            let process = m.process.as_ref()?;
            Some((m.id, m.address.clone(), process.pid()))
        });
        running.collect()
    }

    /// Waits until the stores answer a status request. Returns the number of sections.
    pub(super) async fn wait_until_ready(&self, timeout: Duration) -> Result<u64, String> {
        let started = Instant::now();
        loop {
            let client = self.new_client()?.with_deadline(POLL_INTERVAL * 10);
            if let Ok(status) = client.admin().cluster_status().await {
                return Ok(status.sections_known);
            }
            check_time(started, timeout, "no store answers")?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Starts a store with an empty directory and makes it a voter. Returns the time that this
    /// took.
    pub(super) async fn add_store(
        &mut self,
        id: u64,
        timeout: Duration,
    ) -> Result<Duration, String> {
        let admin = self.new_client()?.admin();
        let address = self.add_member(id);
        self.start_store(id);
        let started = Instant::now();
        loop {
            // A call that times out leaves the store a learner, and the next call continues.
            match admin.add_member(id, &address).await {
                Ok(_) => return Ok(started.elapsed()),
                Err(error) => check_time(
                    started,
                    timeout,
                    &format!("store {id} does not join: {error}"),
                )?,
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Kills a store and removes it from the members.
    pub(super) async fn kill_and_remove_store(&mut self, id: u64) -> Result<(), String> {
        for member in self.members.iter_mut().filter(|m| m.id == id) {
            if let Some(mut process) = member.process.take() {
                process.kill();
            }
        }
        let removed = self.new_client()?.admin().remove_member(id).await;
        removed.map(drop).map_err(|e| e.to_string())
    }

    /// Waits until the leader reports that a store lags by fewer entries.
    pub(super) async fn wait_until_lag_below(
        &self,
        id: u64,
        entries: u64,
        timeout: Duration,
    ) -> Result<(), String> {
        let started = Instant::now();
        let admin = self.new_client()?.admin();
        loop {
            for (_, address, _) in self.running_stores() {
                let status = admin.node_status(&address).await;
                let lag = status.ok().and_then(|s| {
                    s.counters
                        .get(&format!("raft_follower_lag_entries_{id}"))
                        .copied()
                });
                if lag.is_some_and(|lag| lag < entries) {
                    return Ok(());
                }
            }
            check_time(started, timeout, &format!("store {id} lags"))?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the resident memory of a store.
    pub(super) fn store_memory_bytes(&self, id: u64) -> Result<u64, String> {
        let running = self.running_stores();
        let store = running.iter().find(|(running_id, ..)| *running_id == id);
        let (_, _, pid) = store.ok_or_else(|| format!("store {id} does not run"))?;
        let stats = ProcessStats::read(*pid, None).map_err(|e| e.to_string())?;
        Ok(stats.memory_bytes)
    }

    /// Starts an AllocSvr and waits until it owns all slots.
    pub(super) async fn start_alloc(&mut self, timeout: Duration) -> Result<(), String> {
        let address = format!("127.0.0.1:{}", free_ports(1));
        let http_port = free_ports(1);
        let http_address = format!("127.0.0.1:{http_port}");
        let stores: Vec<String> = self
            .running_stores()
            .into_iter()
            .map(|(_, a, _)| a)
            .collect();
        let stores = stores.join(",");
        let args = [
            "alloc",
            "--name",
            "a1",
            "--listen",
            &address,
            "--stores",
            &stores,
            "--http-listen",
            &http_address,
        ];
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let process =
            ServerProcess::start_with_binary(release_binary(), self.dir.path(), "alloc-a1", args);
        self.alloc = Some((process, address, http_port));
        let started = Instant::now();
        loop {
            let status = self.new_client()?.admin().cluster_status().await;
            if status.is_ok_and(|status| status.free_slots == 0) {
                return Ok(());
            }
            check_time(started, timeout, "some slots have no owner")?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the address of the AllocSvr; empty before its start.
    pub(super) fn alloc_address(&self) -> String {
        self.alloc
            .as_ref()
            .map_or_else(String::new, |(_, address, _)| address.clone())
    }

    /// Returns the port of the AllocSvr's dashboard; 0 before its start.
    pub(super) fn page_port(&self) -> u16 {
        self.alloc.as_ref().map_or(0, |(_, _, port)| *port)
    }

    /// Returns the time of one status request.
    pub(super) async fn time_status(&self) -> Result<Duration, String> {
        let admin = self.new_client()?.admin();
        let started = Instant::now();
        let status = admin.cluster_status().await;
        status.map(|_| started.elapsed()).map_err(|e| e.to_string())
    }

    /// Returns the time of the request that a dashboard sends once a second.
    pub(super) async fn time_page(&self) -> Result<Duration, String> {
        time_page(self.page_port()).await
    }
}

/// Sends the request that a dashboard sends once a second, and returns its time.
pub(super) async fn time_page(port: u16) -> Result<Duration, String> {
    let started = Instant::now();
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = b"GET /v1/cluster HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await?;
        Ok::<_, std::io::Error>(response)
    };
    let response = tokio::time::timeout(CALL_TIMEOUT, exchange).await;
    let response = response.map_err(|_| String::from("the dashboard does not answer"))?;
    let response = response.map_err(|e| e.to_string())?;
    match response.starts_with(b"HTTP/1.1 200") {
        true => Ok(started.elapsed()),
        false => Err(String::from_utf8_lossy(&response).into_owned()),
    }
}

/// Fails if the time is over. The text says what did not happen.
fn check_time(started: Instant, timeout: Duration, text: &str) -> Result<(), String> {
    match started.elapsed() < timeout {
        true => Ok(()),
        false => Err(format!("{text} after {timeout:?}")),
    }
}
