//! Calls as any gRPC client makes them: one request each, to one server even if another owns the
//! key.

use bytes::Bytes;
use seqsvr_client::{Current, Error, IssuedRange, Key};
use seqsvr_proto::v1::{CurrentManyRequest, CurrentRequest, NextRequest, current_request};
use tonic::Status;

use super::{
    DirectClient, checked_numbers, insert_failures, next_many_request, read_numbers, status_error,
    to_current,
};
use crate::answers::CallAnswers;
use crate::settings::CallMode;

impl DirectClient {
    /// Sends one call for all keys. If the call fails, each item fails with its error.
    pub(crate) async fn send_batch(
        &self,
        mode: CallMode,
        namespace: &str,
        keys: (Vec<u64>, Vec<Bytes>),
        count: u32,
    ) -> CallAnswers {
        let item_count = keys.0.len().max(keys.1.len());
        let to_error = |status: Status| status_error(&status);
        match mode {
            CallMode::Next | CallMode::NextMany | CallMode::Pipe | CallMode::Ids => {
                let result = self
                    .call_next_many(namespace, keys, item_count, count)
                    .await;
                CallAnswers::Numbers(result.unwrap_or_else(|s| vec![Err(to_error(s)); item_count]))
            }
            CallMode::Current => {
                let result = match item_count {
                    1 => self.call_current(namespace, keys).await,
                    _ => self.call_current_many(namespace, keys).await,
                };
                CallAnswers::Current(result.unwrap_or_else(|s| vec![Err(to_error(s)); item_count]))
            }
        }
    }

    /// Takes the next number or numbers of one key.
    pub(crate) async fn take_next(
        &self,
        namespace: &str,
        key: Key,
        count: u32,
    ) -> Result<IssuedRange, Error> {
        let request = NextRequest {
            namespace: namespace.to_owned(),
            key_kind: Some(key.into()),
            count: (count > 1).then_some(count),
            ..NextRequest::default()
        };
        let result = self.client.clone().next(self.build_request(request)).await;
        let r = result
            .and_then(|answer| self.check_answer(answer))
            .map_err(|status| status_error(&status))?;
        checked_numbers(r.first, r.last, r.epoch, count, self.stride_of(namespace))
    }

    async fn call_next_many(
        &self,
        namespace: &str,
        keys: (Vec<u64>, Vec<Bytes>),
        item_count: usize,
        count: u32,
    ) -> Result<Vec<Result<IssuedRange, Error>>, Status> {
        let request = self.build_request(next_many_request(namespace, keys, count));
        let r = self.check_answer(self.client.clone().next_many(request).await?)?;
        Ok(read_numbers(&r, item_count, count, self.stride_of(namespace)).collect())
    }

    /// Reads the current number of one key.
    async fn call_current(
        &self,
        namespace: &str,
        (uids, keys): (Vec<u64>, Vec<Bytes>),
    ) -> Result<Vec<Result<Current, Error>>, Status> {
        let uids = uids.into_iter().map(current_request::KeyKind::Uid);
        let keys = keys.into_iter().map(current_request::KeyKind::Key);
        let request = self.build_request(CurrentRequest {
            namespace: namespace.to_owned(),
            key_kind: uids.chain(keys).next(),
            ..CurrentRequest::default()
        });
        let r = self.check_answer(self.client.clone().current(request).await?)?;
        Ok(vec![to_current(r.kind(), r.value, r.epoch)])
    }

    async fn call_current_many(
        &self,
        namespace: &str,
        (uids, keys): (Vec<u64>, Vec<Bytes>),
    ) -> Result<Vec<Result<Current, Error>>, Status> {
        let request = CurrentManyRequest {
            namespace: namespace.to_owned(),
            uids,
            keys,
            ..CurrentManyRequest::default()
        };
        let request = self.build_request(request);
        let r = self.check_answer(self.client.clone().current_many(request).await?)?;
        let columns = r.kinds().zip(&r.values).zip(&r.epochs);
        let read_answer =
            |((kind, value), epoch): ((_, &u64), &u64)| to_current(kind, *value, *epoch);
        let mut answers: Vec<_> = columns.map(read_answer).collect();
        insert_failures(&mut answers, &r.errors);
        Ok(answers)
    }
}
