//! The systems that run: those of the case at work, and no other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::time::Duration;

use seqsvr_client::Client;
use seqsvr_test_support::process;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::process_stats::ProcessStats;

use super::error::CompareError;
use super::systems::postgres::PostgresSystem;
use super::systems::redis::RedisSystem;
use super::systems::system_process::SystemProcess;
use super::systems::{baseline, etcd, tsoracle};
use super::workload::{GrpcSystem, HttpSystem, RespSystem, Workload};

/// Number of StoreSvrs and of AllocSvrs of the cluster.
const CLUSTER_SIZE: (u16, u16) = (3, 1);
/// Lease of the cluster: the default of a cluster.
const LEASE_MS: u32 = 3_000;

/// Commands that make what cases name, in addition to what every cluster has.
const SETTING: [&str; 3] = [
    "namespace create pinned --section-size 1 --step 10000 --step-max 10000",
    "namespace create tens --section-size 1 --step 10 --step-max 10",
    "id create snowflake",
];

/// Systems that run now, and what is known about them.
pub(super) struct Testbed {
    /// Time for which each run is measured.
    pub(super) run_time: Duration,
    /// Binary of the cluster and of its generator; None: the binary of this tree.
    pub(super) binary: Option<&'static Path>,
    /// Whether all gRPC of the cluster is under TLS.
    pub(super) is_secured: bool,
    /// Highest measured calls per second of `seqsvr bench`, by its arguments.
    pub(super) peak_call_rates: HashMap<&'static str, f64>,
    seqsvr: Option<ProcessCluster>,
    baseline_grpc: Option<SystemProcess>,
    baseline_resp: Option<SystemProcess>,
    baseline_http: Option<SystemProcess>,
    etcd: Option<SystemProcess>,
    tsoracle: Option<SystemProcess>,
    redis: HashMap<RespSystem, RedisSystem>,
    postgres: Option<PostgresSystem>,
}

/// The system that a workload needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requirement {
    Seqsvr,
    BaselineGrpc,
    BaselineResp,
    BaselineHttp,
    Etcd,
    Tsoracle,
    Redis(RespSystem),
    Postgres,
}

impl Testbed {
    /// Makes a testbed in which no system runs.
    pub(super) fn new(run_time: Duration) -> Testbed {
        Testbed {
            run_time,
            binary: None,
            is_secured: false,
            peak_call_rates: HashMap::new(),
            seqsvr: None,
            baseline_grpc: None,
            baseline_resp: None,
            baseline_http: None,
            etcd: None,
            tsoracle: None,
            redis: HashMap::new(),
            postgres: None,
        }
    }

    /// Stops every system that none of these workloads needs, so that it takes no resources from
    /// them. A system that one of them needs stays, idle, while another is measured.
    pub(super) fn stop_all_except(&mut self, workloads: &[Workload]) {
        let needed: Vec<Requirement> = workloads
            .iter()
            .map(|w| Requirement::of_workload(*w))
            .collect();
        let is_needed = |requirement| needed.contains(&requirement);
        if !is_needed(Requirement::Seqsvr) {
            self.seqsvr = None;
            self.peak_call_rates.clear();
        }
        for (requirement, process) in [
            (Requirement::BaselineGrpc, &mut self.baseline_grpc),
            (Requirement::BaselineResp, &mut self.baseline_resp),
            (Requirement::BaselineHttp, &mut self.baseline_http),
            (Requirement::Etcd, &mut self.etcd),
            (Requirement::Tsoracle, &mut self.tsoracle),
        ] {
            process.take_if(|_| !is_needed(requirement));
        }
        self.redis
            .retain(|system, _| is_needed(Requirement::Redis(*system)));
        self.postgres.take_if(|_| !is_needed(Requirement::Postgres));
    }

    /// Starts the system that a workload needs, unless it runs.
    pub(super) async fn start(&mut self, workload: Workload) -> Result<(), CompareError> {
        match Requirement::of_workload(workload) {
            Requirement::Seqsvr => {
                if self.seqsvr.is_none() {
                    self.seqsvr = Some(start_cluster(self.binary, self.is_secured).await?);
                }
            }
            Requirement::BaselineGrpc => {
                start_if_stopped(&mut self.baseline_grpc, baseline::start_grpc)?;
            }
            Requirement::BaselineResp => {
                start_if_stopped(&mut self.baseline_resp, baseline::start_resp)?;
            }
            Requirement::BaselineHttp => {
                start_if_stopped(&mut self.baseline_http, baseline::start_http)?;
            }
            Requirement::Etcd => start_if_stopped(&mut self.etcd, etcd::start_etcd)?,
            Requirement::Tsoracle => {
                start_if_stopped(&mut self.tsoracle, tsoracle::start_tsoracle)?;
            }
            Requirement::Redis(system) => {
                if let Entry::Vacant(entry) = self.redis.entry(system) {
                    entry.insert(RedisSystem::start(system)?);
                }
            }
            Requirement::Postgres => start_if_stopped(&mut self.postgres, PostgresSystem::start)?,
        }
        Ok(())
    }

    /// Resident bytes of the AllocSvr.
    pub(super) fn alloc_resident_bytes(&self) -> Result<u64, CompareError> {
        let alloc = require_running(&self.seqsvr)?.allocs[0].pid();
        let stats = ProcessStats::read(alloc, None).map_err(CompareError::failed)?;
        Ok(stats.memory_bytes)
    }

    /// Creates a client of the cluster.
    pub(super) fn new_client(&self) -> Result<Client, CompareError> {
        Ok(require_running(&self.seqsvr)?.new_client())
    }

    /// Flags with which a generator calls the cluster: under TLS those of an operator.
    pub(super) fn tls_flags(&self) -> Result<Vec<String>, CompareError> {
        let operator_dir = require_running(&self.seqsvr)?.operator_dir();
        Ok(operator_dir.map_or_else(Vec::new, |dir| {
            vec!["--tls-dir".to_owned(), dir.display().to_string()]
        }))
    }

    /// Address of a gRPC service; of seqsvr, that of the AllocSvr.
    pub(super) fn grpc_address(&self, system: GrpcSystem) -> Result<String, CompareError> {
        let process = match system {
            GrpcSystem::Seqsvr => {
                return Ok(require_running(&self.seqsvr)?.alloc_addresses[0].clone());
            }
            GrpcSystem::Baseline => &self.baseline_grpc,
            GrpcSystem::Etcd => &self.etcd,
            GrpcSystem::Tsoracle => &self.tsoracle,
        };
        Ok(require_running(process)?.address.clone())
    }

    /// Address of a server of the Redis protocol.
    pub(super) fn resp_address(&self, system: RespSystem) -> Result<String, CompareError> {
        Ok(match system {
            RespSystem::Seqsvr => require_running(&self.seqsvr)?.allocs[0]
                .arg("--redis-listen")
                .into(),
            RespSystem::Baseline => require_running(&self.baseline_resp)?.address.clone(),
            _ => {
                let redis = self.redis.get(&system).ok_or_else(not_running)?;
                redis.0.address.clone()
            }
        })
    }

    /// Address of a server of HTTP.
    pub(super) fn http_address(&self, system: HttpSystem) -> Result<String, CompareError> {
        Ok(match system {
            HttpSystem::Seqsvr => require_running(&self.seqsvr)?.allocs[0]
                .arg("--http-listen")
                .into(),
            HttpSystem::Baseline => require_running(&self.baseline_http)?.address.clone(),
        })
    }

    /// The PostgreSQL that runs.
    pub(super) fn postgres(&self) -> Result<&PostgresSystem, CompareError> {
        require_running(&self.postgres)
    }
}

/// Returns whether a workload runs on a cluster of seqsvr.
pub(super) fn needs_seqsvr(workload: Workload) -> bool {
    Requirement::of_workload(workload) == Requirement::Seqsvr
}

impl Requirement {
    fn of_workload(workload: Workload) -> Requirement {
        match workload {
            Workload::Bench(_) | Workload::BenchBesideHolders(_) | Workload::HalfPeak(_) => {
                Requirement::Seqsvr
            }
            Workload::Unary { system, .. } => match system {
                GrpcSystem::Seqsvr => Requirement::Seqsvr,
                GrpcSystem::Baseline => Requirement::BaselineGrpc,
                GrpcSystem::Etcd => Requirement::Etcd,
                GrpcSystem::Tsoracle => Requirement::Tsoracle,
            },
            Workload::Frames { .. } => Requirement::BaselineGrpc,
            Workload::Incr { system, .. } => match system {
                RespSystem::Seqsvr => Requirement::Seqsvr,
                RespSystem::Baseline => Requirement::BaselineResp,
                _ => Requirement::Redis(system),
            },
            Workload::Get { system, .. } => match system {
                HttpSystem::Seqsvr => Requirement::Seqsvr,
                HttpSystem::Baseline => Requirement::BaselineHttp,
            },
            Workload::Nextval { .. } | Workload::UpdateRow { .. } => Requirement::Postgres,
        }
    }
}

async fn start_cluster(
    binary: Option<&'static Path>,
    is_secured: bool,
) -> Result<ProcessCluster, CompareError> {
    process::select_binary(binary);
    let (stores, allocs) = CLUSTER_SIZE;
    let cluster = match is_secured {
        true => ProcessCluster::start_secured(stores, allocs, LEASE_MS).await,
        false => ProcessCluster::start(stores, allocs, LEASE_MS).await,
    };
    let operator_dir = cluster.operator_dir().map(|dir| dir.display().to_string());
    for command in SETTING {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.extend(["--server", &cluster.alloc_addresses[0]]);
        if let Some(dir) = &operator_dir {
            args.extend(["--tls-dir", dir]);
        }
        let output = process::run_command(&args).await;
        if !output.status.success() {
            let text = format!("`seqsvr {command}` failed: {output:?}");
            return Err(CompareError::Failed(text));
        }
    }
    Ok(cluster)
}

fn start_if_stopped<T>(
    system: &mut Option<T>,
    start: impl FnOnce() -> Result<T, CompareError>,
) -> Result<(), CompareError> {
    if system.is_none() {
        *system = Some(start()?);
    }
    Ok(())
}

fn require_running<T>(system: &Option<T>) -> Result<&T, CompareError> {
    system.as_ref().ok_or_else(not_running)
}

fn not_running() -> CompareError {
    CompareError::Failed("internal error: the system of a workload does not run".to_owned())
}
