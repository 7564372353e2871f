//! The side of the scripted AllocSvr that gives ids.

use std::sync::atomic::Ordering;

use seqsvr_core::family::{Family, FamilyLimits, FamilySpec};
use seqsvr_core::ids::FamilyId;
use seqsvr_core::layout::TickScale;
use seqsvr_proto::v1;
use seqsvr_proto::v1::ids_server::Ids;
use seqsvr_proto::v1::pipe_response::Answer;
use tonic::{Request, Response, Status};

use super::*;

/// Layout of most families.
pub const RISING: &str = "0:1,time:41,worker:10,seq:12";

/// Adds a family with ticks of 1 ms since 1970.
pub fn add_family(table: &mut RoutingTable, name: &str, layout: &str) {
    let scale = TickScale::new(0, 1).unwrap();
    let version = table.version() + 1;
    let family = Family {
        id: FamilyId(version as u32),
        spec: FamilySpec::new(name, layout.parse().unwrap(), scale),
        limits: FamilyLimits::DEFAULT,
        version,
    };
    table
        .apply_delta(RoutingDelta {
            cluster: table.cluster(),
            base: table.version(),
            version,
            slot_count: table.slot_count(),
            namespaces: Vec::new(),
            families: vec![family],
            routes: Vec::new(),
        })
        .unwrap();
}

impl FakeAlloc {
    /// Gives the next ids above the floor.
    pub(super) async fn answer_ids(&self, request: v1::NextIdsRequest) -> Answer {
        self.ids_requests.lock().push(request.clone());
        let count = u64::from(request.count());
        let raise = |last: u64| Some(last.max(request.floor()) + count);
        let last = self
            .last_id
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, raise);
        let first = last.unwrap().max(request.floor()) + 1;
        self.delay().await;
        let mut script = self.script.lock();
        if let Some(fault) = script.ids_errors.pop() {
            return Answer::Rejected(fault.to_item_error(0));
        }
        let mut ids: Vec<u64> = (first..first + count).collect();
        if let Some(alter) = script.alters_ids {
            alter(&mut ids);
        }
        let runs = Vec::new();
        Answer::Ids(v1::NextIdsResponse { ids, runs })
    }
}

/// All of its workers are held.
#[tonic::async_trait]
impl Ids for FakeAlloc {
    async fn next_ids(
        &self,
        _: Request<v1::NextIdsRequest>,
    ) -> Result<Response<v1::NextIdsResponse>, Status> {
        unreachable!("clients use frames")
    }

    async fn acquire_worker(
        &self,
        _: Request<v1::AcquireWorkerRequest>,
    ) -> Result<Response<v1::WorkerGrant>, Status> {
        self.acquisitions.fetch_add(1, Ordering::SeqCst);
        self.delay().await;
        Err(RpcError::new(Reason::NoWorker, "all are held").into())
    }

    async fn renew_workers(
        &self,
        _: Request<v1::RenewWorkersRequest>,
    ) -> Result<Response<v1::RenewWorkersResponse>, Status> {
        unreachable!("it gives no grant")
    }

    async fn release_worker(
        &self,
        _: Request<v1::ReleaseWorkerRequest>,
    ) -> Result<Response<v1::ReleaseWorkerResponse>, Status> {
        unreachable!("it gives no grant")
    }
}
