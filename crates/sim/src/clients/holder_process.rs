//! Processes that hold a worker and make ids with the code of `seqsvr-holder`. They reach the
//! stores through any AllocSvr.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures::FutureExt;
use seqsvr_core::family::Family;
use seqsvr_holder::{BootClock, FamilyHolder, HolderOptions, StoreClock, WorkerCalls};
use seqsvr_net::ChannelPool;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::ids_client::IdsClient;
use seqsvr_proto::v1::worker_result::Result as Outcome;
use seqsvr_proto::v1::{
    AcquireWorkerRequest, Reason, ReleaseWorkerRequest, RenewWorkersRequest, Renewal, WorkerGrant,
};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::replaceable_client::create_client;
use super::run_context::{FAMILY, RunContext};
use crate::cluster::{alloc_address, initial_alloc_ids, machine_name};
use crate::machine::{HolderStart, MachineClock};
use crate::network::{MachineId, machine_transport};
use crate::plan::RunPlan;
use crate::random_stream::RandomStream;

/// Timeout of one request to an AllocSvr.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of ids that a holder makes at once before it is closed.
const BURST_IDS: u32 = 200;

/// Returns how the process of a holder starts on a machine.
pub fn run_holder_on(id: MachineId, plan: &RunPlan, context: &Arc<RunContext>) -> HolderStart {
    let (plan, context) = (plan.clone(), context.clone());
    Arc::new(move |clock| run_holder(id, plan.clone(), context.clone(), clock).boxed())
}

/// Makes ids until the process ends. Again and again it closes its holder and begins another.
async fn run_holder(id: MachineId, plan: RunPlan, context: Arc<RunContext>, clock: MachineClock) {
    let client = create_client(id, &plan, &context);
    let family = loop {
        let found = client.family(FAMILY).await;
        let table = client.routes().await.ok().filter(|_| found.is_ok());
        match table.and_then(|table| table.family(FAMILY).cloned()) {
            Some(family) => break family,
            None => sleep(Duration::from_millis(50)).await,
        }
    };
    let channels = ChannelPool::with_transport(machine_transport(&context.net, id));
    let calls = Arc::new(HolderCalls {
        allocs: initial_alloc_ids(&plan.setup)
            .filter_map(|alloc| channels.get(&alloc_address(alloc).to_string()).ok())
            .map(IdsClient::new)
            .collect(),
        next: AtomicUsize::new(id as usize),
    });
    let boot = BootClock::Given(Arc::new(move || clock.read_as_alloc().main_ns));
    let store_clock = StoreClock::new(boot);
    let cluster = client.cluster_tag();
    loop {
        let number = context.next_holder();
        let holder = start_holder(id, &family, &store_clock, &calls);
        let mut random = RandomStream::new(plan.seed, &format!("holder {number}"));
        for _ in 0..random.next_between(200, 2_000) {
            let count = random.next_between(1, 8) as u32;
            make_ids(&holder, count, cluster, (id, number), &context);
            sleep(Duration::from_millis(random.next_between(1, 8))).await;
        }
        // In front of the time, where the next holder must not begin.
        make_ids(&holder, BURST_IDS, cluster, (id, number), &context);
        holder.close().await;
    }
}

fn start_holder(
    id: MachineId,
    family: &Family,
    clock: &Arc<StoreClock>,
    calls: &Arc<HolderCalls>,
) -> FamilyHolder {
    let options = HolderOptions {
        name: machine_name(id),
        workers: 1..=1,
        claimed: None,
        window_ms: 0,
    };
    FamilyHolder::start(family.clone(), clock.clone(), calls.clone(), options)
}

fn make_ids(
    holder: &FamilyHolder,
    count: u32,
    cluster: u64,
    receiver: (MachineId, u64),
    context: &RunContext,
) {
    let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    let Some(call) = context.begin_ids(receiver, true) else {
        return;
    };
    let taken = holder.take(count, None, |worker, run| {
        let mut ids = Vec::new();
        worker.append_ids(run, &mut ids);
        ids
    });
    // Without a grant there is none.
    if let Ok(ids) = taken {
        context.record_ids(cluster, &call, &ids);
    }
}

/// Calls about workers, to one AllocSvr after the other.
struct HolderCalls {
    allocs: Vec<IdsClient<Channel>>,
    next: AtomicUsize,
}

impl HolderCalls {
    async fn send<T, F: Future<Output = Result<Response<T>, Status>>>(
        &self,
        call: impl FnOnce(IdsClient<Channel>) -> F,
    ) -> Result<T, RpcError> {
        let unreachable = |why: &str| RpcError::new(Reason::Unreachable, why);
        let next = self.next.load(Relaxed) % self.allocs.len().max(1);
        let alloc = self.allocs.get(next).cloned();
        let alloc = alloc.ok_or_else(|| unreachable("no AllocSvr is known"))?;
        let answer = timeout(CALL_TIMEOUT, call(alloc)).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::unavailable("no answer in time")));
        answer.map(Response::into_inner).map_err(|status| {
            self.next.store(next + 1, Relaxed);
            RpcError::from_status(&status)
        })
    }
}

impl WorkerCalls for HolderCalls {
    async fn acquire(&self, request: AcquireWorkerRequest) -> Result<WorkerGrant, RpcError> {
        let acquire =
            |mut alloc: IdsClient<Channel>| async move { alloc.acquire_worker(request).await };
        self.send(acquire).await
    }

    async fn renew(&self, renewal: Renewal) -> Result<WorkerGrant, RpcError> {
        let renewals = vec![renewal];
        let renew = |mut alloc: IdsClient<Channel>| async move {
            alloc.renew_workers(RenewWorkersRequest { renewals }).await
        };
        let results = self.send(renew).await?.results;
        match results.into_iter().next().and_then(|result| result.result) {
            Some(Outcome::Grant(grant)) => Ok(grant),
            Some(Outcome::Error(error)) => Err(RpcError::from_item_error(error)),
            _ => Err(RpcError::new(
                Reason::Unspecified,
                "a renewal has no result",
            )),
        }
    }

    async fn release(&self, request: ReleaseWorkerRequest) -> Result<(), RpcError> {
        let release =
            |mut alloc: IdsClient<Channel>| async move { alloc.release_worker(request).await };
        self.send(release).await.map(drop)
    }
}
