//! A whole cluster of processes on loopback, created with `store`, `init` and `alloc`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seqsvr_client::{Client, ClientOptions};
use tempfile::TempDir;

use crate::build_variant;
use crate::process::{ServerProcess, free_ports, release_binary, run_command};
use crate::wait::wait_until;

mod process_pki;

pub use process_pki::ProcessPki;

/// Maximum time until every slot of a new or restarted cluster has an owner.
const ASSIGNMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time until a process has ended after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time until a restarted store has applied what the others have.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// Ports of one AllocSvr.
#[derive(Clone, Copy, Debug)]
pub struct EndpointPorts {
    /// Port of the Redis endpoint.
    pub redis: u16,
    /// Port of the HTTP endpoint.
    pub http: u16,
}

/// Returns the command line of a StoreSvr without further flags.
pub fn store_args(id: u64, address: &str, data_dir: &str) -> Vec<String> {
    let id = id.to_string();
    let args = [
        "store",
        "--id",
        &id,
        "--listen",
        address,
        "--data-dir",
        data_dir,
    ];
    args.map(str::to_owned).to_vec()
}

fn with_flags<'a>(flags: &[&'a str], more: &'a [String]) -> Vec<&'a str> {
    let more = more.iter().map(String::as_str);
    flags.iter().copied().chain(more).collect()
}

/// A cluster of StoreSvrs and AllocSvrs. Dropping it kills all processes.
pub struct ProcessCluster {
    /// StoreSvrs, in the order of their ids.
    pub stores: Vec<ServerProcess>,
    /// AllocSvrs, in the order of their start.
    pub allocs: Vec<ServerProcess>,
    /// `host:port` of each store.
    pub store_addresses: Vec<String>,
    /// `host:port` of each AllocSvr.
    pub alloc_addresses: Vec<String>,
    /// Ports of each AllocSvr's Redis and HTTP endpoints, on loopback.
    pub endpoint_ports: Vec<EndpointPorts>,
    binary: &'static Path,
    /// Certificates, if all gRPC is under TLS.
    pki: Option<ProcessPki>,
    /// Directory of an operator's certificate.
    operator_dir: Option<PathBuf>,
    // Declared last, so that the directory is removed after the processes have ended.
    dir: TempDir,
}

impl ProcessCluster {
    /// Starts all processes, initializes the cluster, and waits until every slot has an owner and
    /// every AllocSvr, if there are any, owns some.
    pub async fn start(stores: u16, allocs: u16, lease_ms: u32) -> ProcessCluster {
        ProcessCluster::start_with(stores, allocs, lease_ms, &[], &[]).await
    }

    /// Starts a cluster with further flags for each store and each AllocSvr.
    pub async fn start_with(
        stores: u16,
        allocs: u16,
        lease_ms: u32,
        store_flags: &[&str],
        alloc_flags: &[&str],
    ) -> ProcessCluster {
        let counts = (stores, allocs);
        ProcessCluster::start_configured(
            release_binary(),
            counts,
            lease_ms,
            store_flags,
            alloc_flags,
        )
        .await
    }

    /// Starts a cluster whose gRPC is under TLS. Its clients have an operator's certificate.
    pub async fn start_secured(stores: u16, allocs: u16, lease_ms: u32) -> ProcessCluster {
        let mut cluster = ProcessCluster::empty(release_binary());
        let pki = ProcessPki::create(&cluster.dir().join("pki")).await;
        cluster.operator_dir = Some(pki.issue("admin", "operator").await);
        cluster.pki = Some(pki);
        cluster
            .start_all((stores, allocs), lease_ms, &[], &[])
            .await;
        cluster
    }

    /// Returns the certificates of a cluster under TLS.
    pub fn pki(&self) -> &ProcessPki {
        self.pki.as_ref().expect("a secured cluster")
    }

    /// Returns the directory of an operator of a cluster under TLS.
    pub fn operator_dir(&self) -> Option<&Path> {
        self.operator_dir.as_deref()
    }

    /// Starts a cluster of another binary.
    pub async fn start_with_binary(
        binary: &'static Path,
        stores: u16,
        allocs: u16,
    ) -> ProcessCluster {
        ProcessCluster::start_configured(binary, (stores, allocs), 3_000, &[], &[]).await
    }

    async fn start_configured(
        binary: &'static Path,
        counts: (u16, u16),
        lease_ms: u32,
        store_flags: &[&str],
        alloc_flags: &[&str],
    ) -> ProcessCluster {
        let mut cluster = ProcessCluster::empty(binary);
        cluster
            .start_all(counts, lease_ms, store_flags, alloc_flags)
            .await;
        cluster
    }

    fn empty(binary: &'static Path) -> ProcessCluster {
        ProcessCluster {
            stores: Vec::new(),
            allocs: Vec::new(),
            store_addresses: Vec::new(),
            alloc_addresses: Vec::new(),
            endpoint_ports: Vec::new(),
            binary,
            pki: None,
            operator_dir: None,
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    async fn start_all(
        &mut self,
        (stores, allocs): (u16, u16),
        lease_ms: u32,
        store_flags: &[&str],
        alloc_flags: &[&str],
    ) {
        for id in 1..=stores {
            let tls = self.tls_flags("store", &format!("s{id}")).await;
            self.add_store_with(id, &with_flags(store_flags, &tls));
        }
        let members: Vec<String> = (1..)
            .zip(&self.store_addresses)
            .map(|(id, address)| format!("{id}={address}"))
            .collect();
        let lease = lease_ms.to_string();
        let members = members.join(",");
        let mut init = vec!["init", "--stores", &members, "--lease-ms", &lease];
        let operator = self
            .operator_dir
            .as_ref()
            .map(|dir| dir.display().to_string());
        if let Some(dir) = &operator {
            init.extend(["--tls-dir", dir]);
        }
        let made = run_command(&init).await;
        assert!(made.status.success(), "init: {made:?}");
        build_variant::alter_namespaces(&self.new_client_of(&self.store_addresses)).await;
        for n in 1..=allocs {
            let name = format!("a{n}");
            let tls = self.tls_flags("alloc", &name).await;
            self.add_alloc(&name, &with_flags(alloc_flags, &tls));
        }
        if allocs > 0 {
            self.wait_until_assigned(usize::from(allocs)).await;
        }
    }

    /// Makes the certificate of a server under TLS. Returns its flags.
    async fn tls_flags(&self, role: &str, name: &str) -> Vec<String> {
        let Some(pki) = &self.pki else {
            return Vec::new();
        };
        let dir = pki.issue(role, name).await.display().to_string();
        vec!["--tls-dir".to_owned(), dir]
    }

    /// Creates a client of these servers, with an operator's certificate under TLS.
    fn new_client_of(&self, addresses: &[String]) -> Client {
        let mut options = ClientOptions::new(addresses.iter().cloned());
        if let Some(dir) = &self.operator_dir {
            options = options.with_tls_dir(dir);
        }
        Client::new(options).expect("good addresses")
    }

    /// Starts one more StoreSvr on an empty directory and appends it to `stores`. The new store
    /// waits until it is added as a member.
    pub fn add_store(&mut self, id: u16) {
        self.add_store_with(id, &[]);
    }

    fn add_store_with(&mut self, id: u16, flags: &[&str]) {
        let name = format!("store-{id}");
        let address = format!("127.0.0.1:{}", free_ports(1));
        let data = self.dir().join(&name).display().to_string();
        let mut args = store_args(u64::from(id), &address, &data);
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let process = ServerProcess::start_with_binary(self.binary, self.dir(), &name, args);
        self.stores.push(process);
        self.store_addresses.push(address);
    }

    /// Starts one more AllocSvr, configured with all `stores`, and appends it to `allocs`. Does not
    /// wait until it owns slots: see [`ProcessCluster::wait_until_assigned`].
    pub fn add_alloc(&mut self, name: &str, extra: &[&str]) {
        let address = format!("127.0.0.1:{}", free_ports(1));
        let endpoint_ports = EndpointPorts {
            redis: free_ports(1),
            http: free_ports(1),
        };
        let stores = self.store_addresses.join(",");
        let redis = format!("127.0.0.1:{}", endpoint_ports.redis);
        let http = format!("127.0.0.1:{}", endpoint_ports.http);
        let args = [
            "alloc",
            "--name",
            name,
            "--listen",
            &address,
            "--stores",
            &stores,
            "--redis-listen",
            &redis,
            "--http-listen",
            &http,
        ];
        let args = args.iter().chain(extra).copied().map(str::to_owned);
        let name = format!("alloc-{name}");
        let process =
            ServerProcess::start_with_binary(self.binary, self.dir(), &name, args.collect());
        self.allocs.push(process);
        self.alloc_addresses.push(address);
        self.endpoint_ports.push(endpoint_ports);
    }

    /// Returns the directory of all files of the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Creates a client with the addresses of all AllocSvrs and default settings.
    pub fn new_client(&self) -> Client {
        self.new_client_of(&self.alloc_addresses)
    }

    /// Returns every process, stores first.
    pub fn all_processes(&mut self) -> impl Iterator<Item = &mut ServerProcess> {
        self.stores.iter_mut().chain(&mut self.allocs)
    }

    /// Waits until every slot has an owner and `owners` AllocSvrs own some.
    pub async fn wait_until_assigned(&mut self, owners: usize) {
        let admin = self.new_client().admin();
        wait_until("every slot has an owner", ASSIGNMENT_TIMEOUT, async || {
            self.assert_none_ended();
            let status = admin.cluster_status().await.ok()?;
            let owning = status.sessions.iter().filter(|s| s.slots > 0).count();
            (status.free_slots == 0 && owning == owners).then_some(())
        })
        .await;
    }

    /// Kills a StoreSvr with SIGKILL and waits until it has ended.
    pub fn kill_store(&mut self, index: usize) {
        self.stores[index].kill();
    }

    /// Stops a StoreSvr in order. It must report success.
    pub async fn stop_store(&mut self, index: usize) {
        let status = self.stores[index].stop(STOP_TIMEOUT).await;
        assert!(status.success(), "store {}: {status}", index + 1);
    }

    /// Restarts a killed or stopped StoreSvr and waits until it has caught up.
    pub async fn restart_store(&mut self, index: usize) {
        self.stores[index].restart();
        self.wait_until_caught_up(index).await;
    }

    /// Waits until a running StoreSvr has applied what the leader has applied by now. Panics if it
    /// ends.
    pub async fn wait_until_caught_up(&mut self, index: usize) {
        let admin = self.new_client().admin();
        let applied_index = async |address: &str| {
            let status = admin.node_status(address).await.ok()?;
            Some(status.counters["raft_applied_index"])
        };
        let goal = wait_until("the leader's status", CATCH_UP_TIMEOUT, async || {
            applied_index(&self.store_addresses[self.leader().await]).await
        })
        .await;
        wait_until("the store to catch up", CATCH_UP_TIMEOUT, async || {
            assert!(!self.stores[index].has_ended(), "the restarted store ended");
            let applied = applied_index(&self.store_addresses[index]).await?;
            (applied >= goal).then_some(())
        })
        .await;
    }

    /// Kills an AllocSvr with SIGKILL and waits until it has ended.
    pub fn kill_alloc(&mut self, index: usize) {
        self.allocs[index].kill();
    }

    /// Panics if a process ended that the scenario did not kill.
    pub fn assert_none_ended(&mut self) {
        for process in self.all_processes() {
            assert!(!process.has_ended(), "a process ended that was not killed");
        }
    }

    /// Waits for a StoreSvr leader and returns its index.
    pub async fn leader(&self) -> usize {
        let admin = self.new_client().admin();
        wait_until(
            "a leader among the stores",
            ASSIGNMENT_TIMEOUT,
            async || {
                let status = admin.cluster_status().await.ok()?;
                let leader = status.stores.iter().find(|s| s.leader)?.address.clone();
                self.store_addresses.iter().position(|a| *a == leader)
            },
        )
        .await
    }

    /// Returns a counter of the process at this address. Panics if it does not answer.
    pub async fn counter(&self, address: &str, name: &str) -> u64 {
        let status = self.new_client().admin().node_status(address).await;
        status.expect("it answers").counters[name]
    }

    /// Returns the sum of a counter over the processes at these addresses. Panics if one of them
    /// does not answer.
    pub async fn sum_counter(&self, addresses: &[String], name: &str) -> u64 {
        let mut sum = 0;
        for address in addresses {
            sum += self.counter(address, name).await;
        }
        sum
    }
}
