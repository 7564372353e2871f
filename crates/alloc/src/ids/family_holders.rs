//! Holders of the families of which this AllocSvr makes ids: one for each that was requested.
//!
//! Grants are independent of the session: with its lease lapsed, an AllocSvr gives no numbers, but
//! ids for the rest of its grants.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::RwLock;
use seqsvr_access::{Caller, GrantTarget, NamespaceRight};
use seqsvr_core::family::{Family, family_name, no_family_text};
use seqsvr_core::layout::InputError;
use seqsvr_holder::{
    BootClock, FamilyHolder, Floor, HeldWorker, HolderOptions, Shortage, StoreClock,
};
use seqsvr_ids::codec::IdCodec;
use seqsvr_ids::generator::Run;
use seqsvr_metrics::{MetricKind, MetricSample};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::RUN_IDS_MAX;
use seqsvr_proto::v1::{IdRun, NextIdsRequest, NextIdsResponse, Reason};
use tokio::time::{Instant, timeout_at};

use crate::batch::validate::check_right;
use crate::ids::worker_relay::WorkerRelay;
use crate::shared_parts::SharedParts;
use crate::store_client::unavailable::shutting_down_error;

/// Most workers of a family, if its limits allow as many.
const WORKERS_MAX: usize = 16;
/// Begins the name of each holder that is an AllocSvr. A caller gets no worker under such a name:
/// it would take the place of an AllocSvr.
pub(crate) const ALLOC_PREFIX: &str = "alloc/";

/// Ids that count as one item while they are waited for.
const IDS_PER_ITEM: usize = 1_000;

fn in_ms(name: &'static str, help: &'static str, time: Duration) -> MetricSample {
    MetricSample {
        kind: MetricKind::GaugeMillis,
        ..MetricSample::gauge(name, help, time.as_millis() as u64)
    }
}

/// Holders of the families of one AllocSvr.
pub(crate) struct FamilyHolders {
    shared: SharedParts,
    relay: Arc<WorkerRelay>,
    clock: Arc<StoreClock>,
    /// None: no more may start.
    holders: RwLock<Option<BTreeMap<String, Arc<ServedFamily>>>>,
}

/// A family of which this AllocSvr makes ids.
struct ServedFamily {
    holder: FamilyHolder,
    codec: IdCodec,
    /// Held by the request for more than a tick of ids that waits longest: several that share each
    /// tick would all be late.
    turn: tokio::sync::Mutex<()>,
    /// Ids that were given.
    ids: AtomicU64,
    /// Requests that had to wait.
    waits: AtomicU64,
}

impl FamilyHolders {
    pub(crate) fn new(shared: SharedParts, relay: WorkerRelay) -> FamilyHolders {
        let session = shared.session.clone();
        let boot = BootClock::Given(Arc::new(move || session.read_clock().main_ns));
        FamilyHolders {
            shared,
            relay: Arc::new(relay),
            clock: StoreClock::new(boot),
            holders: RwLock::new(Some(BTreeMap::new())),
        }
    }

    /// Returns the metrics of the families of which ids were requested.
    pub(crate) fn samples(&self) -> Vec<MetricSample> {
        let holders = self.holders.read();
        let of_family = |(name, served): (&String, &Arc<ServedFamily>)| {
            let label = |sample: MetricSample| sample.with_label("family", name.clone());
            served.samples().map(label)
        };
        let mut samples: Vec<_> = holders.iter().flatten().flat_map(of_family).collect();
        // Those of one metric follow each other.
        samples.sort_by_key(|sample| sample.name);
        samples
    }

    /// Checks a request, and finds its family. `count_max` is the most ids that the caller may
    /// request as ids.
    ///
    /// # Errors
    /// The caller has not the right to its ids; there is no such family, or the count or the floor
    /// is invalid.
    pub(crate) fn begin(
        &self,
        caller: &Caller,
        request: &NextIdsRequest,
        count_max: u32,
    ) -> Result<TakenIds, RpcError> {
        let name = family_name(&request.family);
        check_right(caller, NamespaceRight::Next, GrantTarget::Family(name))?;
        let count_max = if request.runs { RUN_IDS_MAX } else { count_max };
        let count = request.count.unwrap_or(1);
        if count == 0 || count > count_max {
            let text = format!("count must be 1 to {count_max}, not {count}");
            return Err(RpcError::new(Reason::LimitExceeded, text));
        }
        let family = self.find(caller, name)?;
        let floor = request.floor.map(|id| family.read_floor(id)).transpose()?;
        Ok(TakenIds {
            family,
            count,
            left: count,
            floor,
            as_runs: request.runs,
            run_count: 0,
            answer: NextIdsResponse::default(),
        })
    }

    fn find(&self, caller: &Caller, name: &str) -> Result<Arc<ServedFamily>, RpcError> {
        let known = self
            .holders
            .read()
            .as_ref()
            .and_then(|known| known.get(name).cloned());
        known.map_or_else(|| self.start(caller, name), Ok)
    }

    fn start(&self, caller: &Caller, name: &str) -> Result<Arc<ServedFamily>, RpcError> {
        let mut holders = self.holders.write();
        let holders = holders.as_mut().ok_or_else(shutting_down_error)?;
        if let Some(started) = holders.get(name) {
            return Ok(started.clone());
        }
        let family = self.find_in_table(caller, name)?;
        let options = HolderOptions {
            name: format!("{ALLOC_PREFIX}{}", self.shared.identity.name),
            workers: 0..=WORKERS_MAX,
            claimed: None,
            window_ms: 0,
        };
        let codec = IdCodec::new(&family.spec.layout);
        let (clock, calls) = (self.clock.clone(), self.relay.clone());
        let served = Arc::new(ServedFamily {
            holder: FamilyHolder::start(family, clock, calls, options),
            codec,
            turn: tokio::sync::Mutex::default(),
            ids: AtomicU64::new(0),
            waits: AtomicU64::new(0),
        });
        holders.insert(name.to_owned(), served.clone());
        Ok(served)
    }

    fn find_in_table(&self, caller: &Caller, name: &str) -> Result<Family, RpcError> {
        let table = self.shared.table.peek();
        let Some(table) = table.as_deref() else {
            let text = "this AllocSvr has no routing table yet: retry, or use another AllocSvr";
            return Err(RpcError::new(Reason::Unreachable, text).with_retry_after_ms(100));
        };
        table.family(name).cloned().ok_or_else(|| {
            let known = table.families().iter().map(|f| f.spec.name.as_str());
            let known = known.filter(|name| caller.may_see(GrantTarget::Family(name)));
            RpcError::new(Reason::FamilyNotFound, no_family_text(name, known))
        })
    }

    /// Releases all workers. No ids are made any more.
    pub(crate) async fn close(&self) {
        let served = self.holders.write().take().unwrap_or_default();
        join_all(served.values().map(|family| family.holder.close())).await;
    }
}

impl ServedFamily {
    fn samples(&self) -> [MetricSample; 5] {
        let (counter, gauge) = (MetricSample::counter, MetricSample::gauge);
        let [ids, waits] = [&self.ids, &self.waits].map(|count| count.load(Ordering::Relaxed));
        let workers = self.holder.workers().len() as u64;
        let left_help = "Time until the last grant ends, unless it is renewed";
        let life_help = "Time until the layout has no later tick";
        [
            counter("ids_issued", "Ids issued to callers", ids),
            counter("id_waits", "Requests for ids that waited", waits),
            gauge("id_workers", "Workers that this AllocSvr holds", workers),
            in_ms("id_grant_left_ms", left_help, self.holder.time_granted()),
            in_ms("id_life_left_ms", life_help, self.holder.time_to_live()),
        ]
    }

    fn read_floor(&self, id: u64) -> Result<Floor, RpcError> {
        let spec = &self.holder.family().spec;
        let invalid = |reason, text: String| Err(RpcError::new(reason, text));
        if !spec.layout.is_ordered_by_time() || spec.layout.is_inverted() {
            let text = format!("ids of {} do not rise with time: send no floor", spec.name);
            return invalid(Reason::Invalid, text);
        }
        Floor::of_id(&self.codec, spec, id)
            .or_else(|InputError(text)| invalid(Reason::NotAnId, text))
    }
}

/// Ids of one request: those that it has, and those that it still needs.
pub(crate) struct TakenIds {
    family: Arc<ServedFamily>,
    count: u32,
    left: u32,
    floor: Option<Floor>,
    as_runs: bool,
    run_count: usize,
    answer: NextIdsResponse,
}

impl TakenIds {
    /// Takes all that are left, without waiting.
    ///
    /// # Errors
    /// Some must be waited for.
    pub(crate) fn take_now(&mut self) -> Result<(), Shortage> {
        while let Some(left) = NonZeroU32::new(self.left) {
            let family = self.family.clone();
            let floor = self.floor;
            family
                .holder
                .take(left, floor.as_ref(), |worker, run| self.add(worker, run))?;
        }
        Ok(())
    }

    /// Takes all that are left, and waits for them.
    ///
    /// # Errors
    /// There are not as many until the deadline. Those that it has remain unused.
    pub(crate) async fn take_waiting(&mut self, deadline: Instant) -> Result<(), RpcError> {
        let family = self.family.clone();
        family.waits.fetch_add(1, Ordering::Relaxed);
        let is_large = u64::from(self.left) > family.holder.family().spec.capacity();
        let _turn = match is_large {
            true => timeout_at(deadline, family.turn.lock()).await.ok(),
            false => None,
        };
        while let Some(left) = NonZeroU32::new(self.left) {
            let floor = self.floor;
            let add = |worker: &HeldWorker, run| self.add(worker, run);
            family
                .holder
                .take_waiting(left, floor.as_ref(), deadline, add)
                .await?;
        }
        Ok(())
    }

    fn add(&mut self, worker: &HeldWorker, run: Run) {
        // At most as many as were requested.
        let count = run.count as u32;
        self.left -= count;
        self.run_count += 1;
        match self.as_runs {
            true => self.answer.runs.push(IdRun {
                worker: worker.worker(),
                lane: worker.lane().into(),
                epoch: worker.epoch(),
                first: run.first,
                count,
            }),
            false => worker.append_ids(run, &mut self.answer.ids),
        }
    }

    /// Returns how many ids its answer will list.
    pub(crate) fn count(&self) -> usize {
        match self.as_runs {
            true => 0,
            false => self.count as usize,
        }
    }

    /// Returns the items as which it waits: what it keeps is small beside that of as many items.
    pub(crate) fn waiting_items(&self) -> usize {
        self.count() / IDS_PER_ITEM + 1
    }

    /// Returns the answer; all that were requested are taken.
    pub(crate) fn into_answer(mut self) -> NextIdsResponse {
        let spec = &self.family.holder.family().spec;
        self.family
            .ids
            .fetch_add(self.count.into(), Ordering::Relaxed);
        // Random bits may lie above the sequence.
        let is_unsorted = self.run_count > 1 || spec.layout.bits_of("rand") > 0;
        if is_unsorted && !self.as_runs {
            self.answer.ids.sort_unstable();
            if spec.layout.is_inverted() {
                self.answer.ids.reverse();
            }
        }
        self.answer
    }
}
