//! Callers of a client process.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use seqsvr_check::{CallAnswer, CallKind};
use seqsvr_client::{CurrentKind, IssuedRange};
use tokio::time::sleep;

use super::replaceable_client::ReplaceableClient;
use super::run_context::{FAMILY, NAMESPACE, PendingCall, RunContext, UIDS_PER_SECTION};
use crate::network::MachineId;
use crate::plan::CallLoad;
use crate::random_stream::RandomStream;

/// Caller that makes one call after another.
pub(super) struct LoadCaller {
    pub(super) id: u64,
    pub(super) machine: MachineId,
    pub(super) client: Arc<ReplaceableClient>,
    pub(super) context: Arc<RunContext>,
}

fn draw_uid(random: &mut RandomStream, load: &CallLoad) -> u64 {
    nth_uid(random.next_below(load.keys))
}

fn nth_uid(n: u64) -> u64 {
    n * u64::from(UIDS_PER_SECTION) / 2
}

/// Returns the uids of all sequences of a load.
pub(super) fn all_uids(load: &CallLoad) -> impl Iterator<Item = u64> + use<> {
    (0..load.keys).map(nth_uid)
}

impl LoadCaller {
    /// Makes calls until the load ends.
    pub(super) async fn run_calls(self, load: CallLoad, think_ms: u64, mut random: RandomStream) {
        let context = &self.context;
        while context.now_ms() < context.stop_calls_at_ms.load(Relaxed) {
            let uid = draw_uid(&mut random, &load);
            let roll = random.next_below(100);
            let many_end = load.many_percent;
            let current_end = many_end + load.current_percent;
            let raise_end = current_end + load.raise_percent;
            let strict_end = raise_end + load.strict_percent;
            if load.ids_percent > 0 && random.next_bool(load.ids_percent) {
                self.call_ids(random.next_between(1, 8) as u32).await;
            } else if roll < many_end {
                let mut uids: Vec<u64> = (0..5).map(|_| draw_uid(&mut random, &load)).collect();
                uids.sort_unstable();
                uids.dedup();
                self.call_next_many(&uids).await;
            } else if roll < current_end {
                self.call_current(uid).await;
            } else if roll < raise_end {
                self.call_raise_to(uid, random.next_below(50)).await;
            } else {
                self.call_next(uid, roll < strict_end).await;
            }
            sleep(Duration::from_millis(
                random.next_between(1, think_ms.max(1)),
            ))
            .await;
        }
    }

    async fn call_next(&self, uid: u64, is_strict: bool) -> bool {
        let sdk = self.client.current_client();
        let call = self.context.begin_call(&sdk, self.id, uid, is_strict);
        let result = match is_strict {
            true => sdk.strict().namespace(NAMESPACE).next(uid).await,
            false => sdk.namespace(NAMESPACE).next(uid).await,
        };
        let answer = result.as_ref().map(next_answer);
        self.context
            .record_call(&sdk, &call, CallKind::Next, answer);
        self.client.replace_if_foreign(&sdk, result.as_ref().err());
        result.is_ok()
    }

    async fn call_next_many(&self, uids: &[u64]) {
        let sdk = self.client.current_client();
        let begin = |uid: &u64| self.context.begin_call(&sdk, self.id, *uid, false);
        let calls: Vec<PendingCall> = uids.iter().map(begin).collect();
        let results = sdk.namespace(NAMESPACE).next_batch(uids).await;
        for (call, result) in calls.iter().zip(&results) {
            let answer = result.as_ref().map(next_answer);
            self.context.record_call(&sdk, call, CallKind::Next, answer);
        }
        let error = results.iter().find_map(|result| result.as_ref().err());
        self.client.replace_if_foreign(&sdk, error);
    }

    async fn call_current(&self, uid: u64) {
        let sdk = self.client.current_client();
        let call = self.context.begin_call(&sdk, self.id, uid, false);
        let result = sdk.namespace(NAMESPACE).current(uid).await;
        let answer = result.as_ref().map(|current| {
            let answer = match current.kind {
                CurrentKind::Exact => CallAnswer::Exact(current.value),
                CurrentKind::Never => CallAnswer::Never,
                CurrentKind::AtMost => CallAnswer::AtMost(current.value),
            };
            (answer, current.epoch)
        });
        self.context
            .record_call(&sdk, &call, CallKind::Current, answer);
        self.client.replace_if_foreign(&sdk, result.as_ref().err());
    }

    async fn call_raise_to(&self, uid: u64, by: u64) {
        let sdk = self.client.current_client();
        let call = self.context.begin_call(&sdk, self.id, uid, false);
        let target = call.floor + by + 1;
        let result = sdk.namespace(NAMESPACE).raise_to(uid, target).await;
        let answer = result.as_ref().map(|raised| {
            let to = raised.value;
            let answer = CallAnswer::RaiseTo {
                requested: target,
                to,
            };
            (answer, raised.epoch)
        });
        self.context
            .record_call(&sdk, &call, CallKind::RaiseTo, answer);
        self.client.replace_if_foreign(&sdk, result.as_ref().err());
    }

    /// Takes ids of the family.
    async fn call_ids(&self, count: u32) -> bool {
        let sdk = self.client.current_client();
        let receiver = (self.machine, sdk.cluster_tag());
        let Some(call) = self.context.begin_ids(receiver, false) else {
            return true;
        };
        let taking = async {
            let family = sdk.family(FAMILY).await?;
            match count {
                1 => family.next().await.map(|id| vec![id]),
                count => family.many(count).await,
            }
        };
        let taken = taking.await;
        if let Ok(ids) = &taken {
            self.context.record_ids(sdk.cluster_tag(), &call, ids);
        }
        self.client.replace_if_foreign(&sdk, taken.as_ref().err());
        taken.is_ok()
    }

    /// Makes calls during the calm phase, and calls each sequence once at its end.
    pub(super) async fn run_calm_calls(&self, keys: u64) {
        let until = loop {
            match self.context.calm_until_ms.load(Relaxed) {
                0 => sleep(Duration::from_millis(5)).await,
                until => break until,
            }
        };
        let mut n = self.id;
        while self.context.now_ms() < until {
            self.call_next(nth_uid(n % keys), n % 5 == 0).await;
            n += 1;
            sleep(Duration::from_millis(30)).await;
        }
        for n in 0..keys {
            self.call_next(nth_uid(n), false).await;
        }
    }

    /// Calls every sequence once more, and takes an id; retries until each call succeeds.
    pub(super) async fn call_all_until_answered(&self, load: &CallLoad) {
        for n in 0..load.keys {
            let uid = nth_uid(n);
            while !self.call_next(uid, false).await {}
            while !self.call_next(uid, true).await {}
            self.call_current(uid).await;
        }
        while load.ids_percent > 0 && !self.call_ids(1).await {}
    }
}

fn next_answer(numbers: &IssuedRange) -> (CallAnswer, u64) {
    let answer = CallAnswer::Next {
        first: numbers.first,
        last: numbers.last,
        stride: NonZeroU64::MIN,
    };
    (answer, numbers.epoch)
}
