//! The servers that run: those of the row at work, and no other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::time::Duration;

use seqsvr_test_support::process;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::process_stats::ProcessStats;

use super::Failure;
use super::systems::{self, baseline, etcd, postgres::Postgres, redis::Redis, tsoracle};
use super::workload::{Server, Service, Speaker, Work};

/// StoreSvrs, and AllocSvrs.
const SIZE: (u16, u16) = (3, 1);
/// Lease of the cluster: its default.
const LEASE_MS: u32 = 3_000;

/// Namespaces that rows name, beside those that every cluster has.
const NAMESPACES: [&str; 2] = [
    "pinned --section-size 1 --step 10000 --step-max 10000",
    "tens --section-size 1 --step 10 --step-max 10",
];

/// What runs, and what is known of it.
pub(super) struct Rig {
    /// How long each work is measured.
    pub(super) time: Duration,
    /// Binary of the cluster and of its generator; None: this tree's.
    pub(super) binary: Option<&'static Path>,
    /// Calls a second that a work of `seqsvr bench` reached at its fastest.
    pub(super) peaks: HashMap<&'static str, f64>,
    seqsvr: Option<ProcessCluster>,
    bare: Option<systems::Server>,
    bare_resp: Option<systems::Server>,
    bare_http: Option<systems::Server>,
    etcd: Option<systems::Server>,
    tsoracle: Option<systems::Server>,
    redis: HashMap<Speaker, Redis>,
    postgres: Option<Postgres>,
}

/// What a work needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Seqsvr,
    Bare,
    BareResp,
    BareHttp,
    Etcd,
    Tsoracle,
    Redis(Speaker),
    Postgres,
}

impl Rig {
    pub(super) fn new(time: Duration) -> Rig {
        Rig {
            time,
            binary: None,
            peaks: HashMap::new(),
            seqsvr: None,
            bare: None,
            bare_resp: None,
            bare_http: None,
            etcd: None,
            tsoracle: None,
            redis: HashMap::new(),
            postgres: None,
        }
    }

    /// Ends every server that none of a row's works needs, so that it takes nothing from them. What
    /// is needed by one of them runs, idle, beside the other.
    pub(super) fn keep(&mut self, works: &[Work]) {
        let needs: Vec<Need> = works.iter().copied().map(Need::of).collect();
        let ends = |need| !needs.contains(&need);
        if ends(Need::Seqsvr) {
            self.seqsvr = None;
            self.peaks.clear();
        }
        for (need, server) in [
            (Need::Bare, &mut self.bare),
            (Need::BareResp, &mut self.bare_resp),
            (Need::BareHttp, &mut self.bare_http),
            (Need::Etcd, &mut self.etcd),
            (Need::Tsoracle, &mut self.tsoracle),
        ] {
            *server = server.take().filter(|_| !ends(need));
        }
        self.redis.retain(|of, _| !ends(Need::Redis(*of)));
        self.postgres = self.postgres.take().filter(|_| !ends(Need::Postgres));
    }

    /// Starts what a work needs, if it does not run.
    pub(super) async fn start(&mut self, work: Work) -> Result<(), Failure> {
        match Need::of(work) {
            Need::Seqsvr => {
                if self.seqsvr.is_none() {
                    process::select_binary(self.binary);
                    let (stores, allocs) = SIZE;
                    let cluster = ProcessCluster::start(stores, allocs, LEASE_MS).await;
                    for namespace in NAMESPACES {
                        let server = ["--server", &cluster.alloc_addresses[0]];
                        let create = ["namespace", "create"].into_iter();
                        let create = create.chain(namespace.split_whitespace());
                        let create: Vec<&str> = create.chain(server).collect();
                        let made = process::run_command(&create).await;
                        if !made.status.success() {
                            return Err(Failure::Wrong(format!("namespace create: {made:?}")));
                        }
                    }
                    self.seqsvr = Some(cluster);
                }
            }
            Need::Bare => start(&mut self.bare, baseline::start)?,
            Need::BareResp => start(&mut self.bare_resp, baseline::start_resp)?,
            Need::BareHttp => start(&mut self.bare_http, baseline::start_http)?,
            Need::Etcd => start(&mut self.etcd, etcd::start)?,
            Need::Tsoracle => start(&mut self.tsoracle, tsoracle::start)?,
            Need::Redis(of) => {
                if let Entry::Vacant(redis) = self.redis.entry(of) {
                    redis.insert(Redis::start(of)?);
                }
            }
            Need::Postgres => start(&mut self.postgres, Postgres::start)?,
        }
        Ok(())
    }

    /// Address of the AllocSvr.
    pub(super) fn seqsvr(&self) -> Result<String, Failure> {
        let cluster = running(&self.seqsvr)?;
        Ok(cluster.alloc_addresses[0].clone())
    }

    /// Resident bytes of the AllocSvr.
    pub(super) fn memory(&self) -> Result<u64, Failure> {
        let alloc = running(&self.seqsvr)?.allocs[0].pid();
        let vitals = ProcessStats::read(alloc, None).map_err(Failure::wrong)?;
        Ok(vitals.memory_bytes)
    }

    pub(super) fn bare(&self) -> Result<String, Failure> {
        Ok(running(&self.bare)?.address.clone())
    }

    pub(super) fn etcd(&self) -> Result<String, Failure> {
        Ok(running(&self.etcd)?.address.clone())
    }

    pub(super) fn tsoracle(&self) -> Result<String, Failure> {
        Ok(running(&self.tsoracle)?.address.clone())
    }

    /// Address of who speaks Redis's protocol.
    pub(super) fn speaker(&self, of: Speaker) -> Result<String, Failure> {
        Ok(match of {
            Speaker::Seqsvr => running(&self.seqsvr)?.allocs[0]
                .arg("--redis-listen")
                .into(),
            Speaker::Bare => running(&self.bare_resp)?.address.clone(),
            _ => self.redis.get(&of).ok_or_else(stopped)?.0.address.clone(),
        })
    }

    /// Address of who serves HTTP.
    pub(super) fn http(&self, of: Server) -> Result<String, Failure> {
        Ok(match of {
            Server::Seqsvr => running(&self.seqsvr)?.allocs[0].arg("--http-listen").into(),
            Server::Bare => running(&self.bare_http)?.address.clone(),
        })
    }

    pub(super) fn postgres(&self) -> Result<&Postgres, Failure> {
        running(&self.postgres)
    }
}

/// Whether a work runs on a cluster of seqsvr.
pub(super) fn needs_seqsvr(work: Work) -> bool {
    Need::of(work) == Need::Seqsvr
}

impl Need {
    fn of(work: Work) -> Need {
        match work {
            Work::Bench(_) | Work::Half(_) => Need::Seqsvr,
            Work::Unary { of, .. } => match of {
                Service::Seqsvr => Need::Seqsvr,
                Service::Bare => Need::Bare,
                Service::Etcd => Need::Etcd,
                Service::Tsoracle => Need::Tsoracle,
            },
            Work::Frames { .. } => Need::Bare,
            Work::Incr { of, .. } => match of {
                Speaker::Seqsvr => Need::Seqsvr,
                Speaker::Bare => Need::BareResp,
                _ => Need::Redis(of),
            },
            Work::Get { of, .. } => match of {
                Server::Seqsvr => Need::Seqsvr,
                Server::Bare => Need::BareHttp,
            },
            Work::Nextval { .. } | Work::UpdateRow { .. } => Need::Postgres,
        }
    }
}

fn start<T>(
    server: &mut Option<T>,
    start: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    if server.is_none() {
        *server = Some(start()?);
    }
    Ok(())
}

fn running<T>(server: &Option<T>) -> Result<&T, Failure> {
    server.as_ref().ok_or_else(stopped)
}

fn stopped() -> Failure {
    Failure::Wrong("a work began before its server".to_owned())
}
