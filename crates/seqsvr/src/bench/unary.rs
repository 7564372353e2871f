//! Calls as any gRPC client makes them: one request each, to one server even if another owns the
//! key.

use bytes::Bytes;
use seqsvr_client::{Current, Error, Key, Numbers};
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentRequest, NextRequest, current_request, next_request,
};
use tonic::Status;

use super::caller::Answers;
use super::plain::{Plain, current, failures, next_many, numbers, range, status_error};
use crate::cli::Mode;

impl Plain {
    /// Sends one call for all keys. If the call fails, each item fails with its error.
    pub(crate) async fn ask(
        &self,
        mode: Mode,
        namespace: &str,
        keys: (Vec<u64>, Vec<Bytes>),
        count: u32,
    ) -> Answers {
        let asked = keys.0.len().max(keys.1.len());
        let failed = |status: Status| status_error(&status);
        match mode {
            Mode::Next | Mode::NextMany | Mode::Pipe => {
                let answered = self.next_many(namespace, keys, asked, count).await;
                Answers::Numbers(answered.unwrap_or_else(|s| vec![Err(failed(s)); asked]))
            }
            Mode::Current => {
                let answered = match asked {
                    1 => self.current(namespace, keys).await,
                    _ => self.current_many(namespace, keys).await,
                };
                Answers::Current(answered.unwrap_or_else(|s| vec![Err(failed(s)); asked]))
            }
        }
    }

    /// Takes the next number or numbers of one key.
    pub(crate) async fn next(
        &self,
        namespace: &str,
        key: Key,
        count: u32,
    ) -> Result<Numbers, Error> {
        let request = NextRequest {
            namespace: namespace.to_owned(),
            key_kind: Some(match key {
                Key::Uid(uid) => next_request::KeyKind::Uid(uid),
                Key::Key(key) => next_request::KeyKind::Key(key),
            }),
            count: (count > 1).then_some(count),
            ..NextRequest::default()
        };
        let answered = self.client.clone().next(self.request(request)).await;
        let r = answered
            .and_then(|answer| self.answer(answer))
            .map_err(|status| status_error(&status))?;
        range(r.first, r.last, r.epoch, count, self.stride(namespace))
    }

    async fn next_many(
        &self,
        namespace: &str,
        keys: (Vec<u64>, Vec<Bytes>),
        asked: usize,
        count: u32,
    ) -> Result<Vec<Result<Numbers, Error>>, Status> {
        let request = self.request(next_many(namespace, keys, count));
        let r = self.answer(self.client.clone().next_many(request).await?)?;
        Ok(numbers(&r, asked, count, self.stride(namespace)))
    }

    async fn current(
        &self,
        namespace: &str,
        (uids, keys): (Vec<u64>, Vec<Bytes>),
    ) -> Result<Vec<Result<Current, Error>>, Status> {
        let uids = uids.into_iter().map(current_request::KeyKind::Uid);
        let keys = keys.into_iter().map(current_request::KeyKind::Key);
        let mut answers = Vec::with_capacity(1);
        for key in uids.chain(keys) {
            let request = CurrentRequest {
                namespace: namespace.to_owned(),
                key_kind: Some(key),
                ..CurrentRequest::default()
            };
            let request = self.request(request);
            let r = self.answer(self.client.clone().current(request).await?)?;
            answers.push(current(r.kind(), r.value, r.epoch));
        }
        Ok(answers)
    }

    async fn current_many(
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
        let request = self.request(request);
        let r = self.answer(self.client.clone().current_many(request).await?)?;
        let columns = r.kinds().zip(&r.values).zip(&r.epochs);
        let one = |((kind, value), epoch): ((_, &u64), &u64)| current(kind, *value, *epoch);
        let mut all: Vec<_> = columns.map(one).collect();
        failures(&mut all, &r.errors);
        Ok(all)
    }
}
