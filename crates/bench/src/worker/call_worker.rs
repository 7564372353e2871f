//! One caller of the SDK or of unary RPCs: one call after the other, each verified and measured.

use std::sync::Arc;

use rand::rngs::SmallRng;
use seqsvr_client::{Error, IssuedRange, Key, NamespaceHandle, NextItem};
use tokio::time::Instant;

use super::direct_client::DirectClient;
use crate::answers::{AnsweredItem, CallAnswers};
use crate::call_recorder::{CallRecorder, CallTally};
use crate::run_state::CallItems;
use crate::settings::CallMode;

/// Way in which a caller sends its calls.
#[derive(Clone)]
pub(crate) enum CallClient {
    /// Through the SDK, which merges the calls of many callers: a handle for each namespace.
    Sdk(Arc<[NamespaceHandle]>),
    /// As any gRPC client: each call is one request.
    Unary(DirectClient),
}

/// One caller, with one call in flight at a time.
pub(crate) struct CallWorker {
    pub(crate) recorder: CallRecorder,
    pub(crate) client: CallClient,
    /// Index of the caller.
    pub(crate) caller: usize,
    pub(crate) rng: SmallRng,
    /// Items of its call; their memory is reused for its next call.
    pub(crate) items: CallItems,
}

impl CallWorker {
    /// Makes calls until the run is over.
    ///
    /// # Errors
    /// The history cannot be written.
    pub(crate) async fn run(mut self) -> Result<(), seqsvr_check::Error> {
        let run = self.recorder.run.clone();
        let mut now = Instant::now();
        while let Some(due) = run.pacer.wait_until_due(now).await {
            let mut tally = CallTally::default();
            let begin = self.recorder.begin_call(self.caller, due);
            let first_key = run.keys.draw_namespace(&mut self.rng);
            run.draw_items(first_key, &mut self.rng, &mut self.items);
            if run.mode == CallMode::Next {
                let answer = self.take_next(self.items.keys[0]).await;
                now = Instant::now();
                let answers = std::iter::once(answer.map(AnsweredItem::Numbers));
                let recorder = &mut self.recorder;
                recorder.record_answers(&self.items, answers, begin, now, &mut tally)?;
            } else {
                let answers = self.send_batch(&self.items.keys).await;
                now = Instant::now();
                let recorder = &mut self.recorder;
                match answers {
                    CallAnswers::Numbers(answers) => {
                        let answers = answers
                            .into_iter()
                            .map(|answer| answer.map(AnsweredItem::Numbers));
                        recorder.record_answers(&self.items, answers, begin, now, &mut tally)?;
                    }
                    CallAnswers::Current(answers) => {
                        let answers = answers
                            .into_iter()
                            .map(|answer| answer.map(AnsweredItem::Current));
                        recorder.record_answers(&self.items, answers, begin, now, &mut tally)?;
                    }
                }
            }
            self.recorder.end_call(self.caller, due, now, tally);
        }
        self.recorder.retire_caller(self.caller);
        Ok(())
    }

    /// Takes the next number or numbers of one key.
    async fn take_next(&self, key: u32) -> Result<IssuedRange, Error> {
        let run = &self.recorder.run;
        let (index, key) = (key, run.keys.key_at(key));
        match &self.client {
            CallClient::Sdk(handles) => {
                let handle = &handles[run.keys.namespace_index(index)];
                handle.next_n(key, run.count).await
            }
            // Boxed, here and below: otherwise the future of each of a thousand SDK callers would
            // reserve memory for it.
            CallClient::Unary(client) => {
                let namespace = run.keys.namespace_of(index);
                Box::pin(client.take_next(namespace, key, run.count)).await
            }
        }
    }

    /// Sends one call for many keys of one namespace.
    async fn send_batch(&self, keys: &[u32]) -> CallAnswers {
        let run = &self.recorder.run;
        let first = keys[0];
        let keys = keys.iter().copied();
        match &self.client {
            CallClient::Sdk(handles) => {
                let handle = &handles[run.keys.namespace_index(first)];
                self.send_batch_by_sdk(handle, keys).await
            }
            CallClient::Unary(client) => {
                let namespace = run.keys.namespace_of(first);
                let keys = run.keys.request_columns(keys);
                Box::pin(client.send_batch(run.mode, namespace, keys, run.count)).await
            }
        }
    }

    /// Sends one call for many keys through the SDK.
    async fn send_batch_by_sdk(
        &self,
        handle: &NamespaceHandle,
        keys: impl ExactSizeIterator<Item = u32>,
    ) -> CallAnswers {
        let run = &self.recorder.run;
        match run.mode {
            CallMode::Next | CallMode::NextMany | CallMode::Pipe | CallMode::Ids => {
                CallAnswers::Numbers(match run.count {
                    1 => {
                        let (uids, keys) = run.keys.request_columns(keys);
                        let keys: Vec<Key> = keys.into_iter().map(Key::from).collect();
                        match keys.is_empty() {
                            true => handle.next_batch(&uids).await,
                            false => handle.next_batch(&keys).await,
                        }
                    }
                    count => {
                        let item = |key| NextItem::new(key).with_count(count);
                        let items = run.keys.map_keys(keys, item);
                        handle.next_batch(&items).await
                    }
                })
            }
            CallMode::Current => {
                let keys = run.keys.map_keys(keys, |key| key);
                CallAnswers::Current(match keys.as_slice() {
                    [key] => vec![handle.current(key.clone()).await],
                    keys => handle.current_batch(keys).await,
                })
            }
        }
    }
}
