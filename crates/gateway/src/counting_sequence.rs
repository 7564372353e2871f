//! A service for tests that counts in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_access::{Access, Caller};
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::Namespace;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_net::{ConnectionQuota, LocalSequence};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::key::KeyBuf;
use seqsvr_proto::v1::{self, CurrentKind, Reason, raise_to_request::KeyKind as RaisedKey};
use seqsvr_proto::v1::{ItemError, sequence_server::Sequence};
use tonic::{Code, Request, Response, Status, Streaming};

/// Time that a take of the key `slow` lasts.
pub(crate) const SLOW_TAKE: Duration = Duration::from_secs(5);

/// A service that counts each key of each namespace from 1, for every caller. The key `fail` fails,
/// `slow` is slow, and the owner of `old` does not read `value_if_none`.
#[derive(Clone)]
pub(crate) struct CountingSequence {
    access: Access,
    counted: Arc<Mutex<CountedKeys>>,
}

#[derive(Default)]
struct CountedKeys {
    numbers: HashMap<(String, KeyBuf), u64>,
    /// The caller of each use of a key.
    callers: Vec<String>,
}

impl Default for CountingSequence {
    fn default() -> CountingSequence {
        CountingSequence::with_access(Access::by_role())
    }
}

impl CountingSequence {
    /// Creates a service whose callers `access` judges.
    pub(crate) fn with_access(access: Access) -> CountingSequence {
        CountingSequence {
            access,
            counted: Arc::default(),
        }
    }

    /// Returns how many keys were taken from, read or set.
    pub(crate) fn calls(&self) -> usize {
        self.counted.lock().callers.len()
    }

    /// Returns who took from, read or set a key, each time.
    pub(crate) fn callers(&self) -> Vec<String> {
        self.counted.lock().callers.clone()
    }

    /// Changes the number of a key, and returns it.
    fn change(
        &self,
        caller: &Caller,
        namespace: &str,
        key: KeyBuf,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Status> {
        let mut all = self.counted.lock();
        all.callers.push(caller.to_string());
        if key == KeyBuf::from("fail") {
            return Err(Status::invalid_argument("this key fails"));
        }
        let number = all.numbers.entry((namespace.to_owned(), key)).or_default();
        *number = change(*number);
        Ok(*number)
    }

    /// Changes the numbers of many keys; returns them and the failed items.
    fn change_many(
        &self,
        caller: &Caller,
        namespace: &str,
        uids: Vec<u64>,
        keys: Vec<bytes::Bytes>,
        change: impl Fn(usize, u64) -> u64,
    ) -> (Vec<u64>, Vec<ItemError>) {
        let uids = uids.into_iter().map(KeyBuf::Uid);
        let all = uids.chain(keys.into_iter().map(KeyBuf::Key));
        let (mut numbers, mut errors) = (Vec::new(), Vec::new());
        for (index, key) in all.enumerate() {
            let changed = self.change(caller, namespace, key, |number| change(index, number));
            numbers.push(changed.clone().unwrap_or_default());
            errors.extend(changed.err().map(|status| ItemError {
                index: index as u32,
                code: status.code() as i32,
                message: status.message().to_owned(),
                ..ItemError::default()
            }));
        }
        (numbers, errors)
    }
}

impl LocalSequence for CountingSequence {
    fn access(&self) -> &Access {
        &self.access
    }

    fn try_next(
        &self,
        caller: &Caller,
        namespace: &str,
        key: KeyRef<'_>,
        count: u32,
    ) -> Option<v1::NextResponse> {
        let add = |number| number + u64::from(count);
        let last = self.change(caller, namespace, key.into(), add).ok()?;
        Some(v1::NextResponse {
            last,
            ..v1::NextResponse::default()
        })
    }

    async fn next_many_local(
        &self,
        caller: &Caller,
        request: v1::NextManyRequest,
        _: &ConnectionQuota,
    ) -> Result<v1::NextManyResponse, Status> {
        let v1::NextManyRequest {
            namespace,
            uids,
            keys,
            counts,
            ..
        } = request;
        if keys.iter().any(|key| key == "slow") {
            tokio::time::sleep(SLOW_TAKE).await;
        }
        let count = |index| counts.get(index).map_or(1, |count| u64::from(*count));
        let add = |index, number| number + count(index);
        let (lasts, errors) = self.change_many(caller, &namespace, uids, keys, add);
        let firsts = lasts.iter().enumerate();
        Ok(v1::NextManyResponse {
            firsts: firsts
                .map(|(index, last)| (last + 1).saturating_sub(count(index)))
                .collect(),
            lasts,
            errors,
            ..v1::NextManyResponse::default()
        })
    }

    fn can_serve(&self) -> bool {
        true
    }

    async fn routing_table(&self, _: Duration) -> Result<Arc<RoutingTable>, Status> {
        Err(unavailable())
    }

    async fn namespace(&self, _: &str) -> Result<Option<Namespace>, Status> {
        Ok(None)
    }
}

#[tonic::async_trait]
impl Sequence for CountingSequence {
    type PipeStream = futures::stream::Empty<Result<v1::PipeResponse, Status>>;

    async fn next(
        &self,
        _: Request<v1::NextRequest>,
    ) -> Result<Response<v1::NextResponse>, Status> {
        Err(unavailable())
    }

    async fn next_many(
        &self,
        _: Request<v1::NextManyRequest>,
    ) -> Result<Response<v1::NextManyResponse>, Status> {
        Err(unavailable())
    }

    async fn current(
        &self,
        _: Request<v1::CurrentRequest>,
    ) -> Result<Response<v1::CurrentResponse>, Status> {
        Err(unavailable())
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        let caller = caller_of(&request);
        let request = request.into_inner();
        let (values, errors) = self.change_many(
            &caller,
            &request.namespace,
            request.uids,
            request.keys,
            |_, n| n,
        );
        let kind_of = |number: &u64| match number {
            0 => CurrentKind::Never.into(),
            _ => CurrentKind::Exact.into(),
        };
        Ok(Response::new(v1::CurrentManyResponse {
            kinds: values.iter().map(kind_of).collect(),
            values,
            errors,
            ..v1::CurrentManyResponse::default()
        }))
    }

    async fn raise_to(
        &self,
        request: Request<v1::RaiseToRequest>,
    ) -> Result<Response<v1::RaiseToResponse>, Status> {
        let caller = caller_of(&request);
        let request = request.into_inner();
        let key = match request.key_kind {
            Some(RaisedKey::Uid(uid)) => KeyBuf::Uid(uid),
            Some(RaisedKey::Key(key)) => KeyBuf::Key(key),
            None => return Err(Status::new(Code::InvalidArgument, "no key")),
        };
        if key == KeyBuf::from("old") && request.value == 0 {
            let text = "RaiseTo takes a number from 1 to 2^63-1, not 0";
            return Err(RpcError::new(Reason::Invalid, text).into());
        }
        let mut had_number = false;
        let raise = |number: u64| {
            had_number = request.value_if_none > 0 && number > 0;
            match had_number {
                true => number,
                false => number.max(request.value.max(request.value_if_none)),
            }
        };
        let value = self.change(&caller, &request.namespace, key, raise)?;
        Ok(Response::new(v1::RaiseToResponse {
            value,
            had_number,
            ..v1::RaiseToResponse::default()
        }))
    }

    async fn routes(
        &self,
        _: Request<v1::RoutesRequest>,
    ) -> Result<Response<v1::RoutingTable>, Status> {
        Err(unavailable())
    }

    async fn pipe(
        &self,
        _: Request<Streaming<v1::PipeRequest>>,
    ) -> Result<Response<Self::PipeStream>, Status> {
        Err(unavailable())
    }
}

fn caller_of<T>(request: &Request<T>) -> Caller {
    let caller = request.extensions().get::<Caller>();
    caller.expect("a call without its caller").clone()
}

fn unavailable() -> Status {
    Status::unavailable("this test service does not answer this call")
}
