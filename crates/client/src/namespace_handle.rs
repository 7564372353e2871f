//! The handle of a namespace, which makes its calls.

use std::sync::Arc;

use seqsvr_core::ids::{SectionKey, Slot};
use seqsvr_core::namespace::validate_name;
use seqsvr_core::routing_table::Route;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::key::KeyBuf;

use crate::batch_item::{BatchItem, NextItem};
use crate::call::batch::execution::call_batch;
use crate::call::context::CallContext;
use crate::call::key::single::SingleCall;
use crate::call::retry_budget::RetryBudget;
use crate::call::sequence_call::{CurrentCall, NextCall};
use crate::call::table_fetch::get_table;
use crate::error::Error;
use crate::raise_to_call::RaiseToCall;
use crate::routing::locate::locate;
use crate::types::{Current, IssuedRange};

/// The sequences of one namespace: [`Client::namespace`](crate::Client::namespace) creates it.
///
/// A handle is cheap to clone and keeps the connections, the routing table, the deadline and the
/// mode of its client. Keep one for each namespace: to create one copies the name.
#[derive(Clone)]
pub struct NamespaceHandle {
    context: CallContext,
    /// Empty: the default namespaces.
    name: Arc<str>,
    /// Why the name cannot be that of a namespace.
    name_error: Option<Error>,
}

impl NamespaceHandle {
    pub(crate) fn new(context: CallContext, name: &str) -> NamespaceHandle {
        let checked = match name {
            "" => Ok(()),
            name => validate_name("namespace", name),
        };
        NamespaceHandle {
            context,
            name: name.into(),
            name_error: checked.err().map(Error::invalid),
        }
    }

    /// Returns the name; empty for the default namespaces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the next number of a key. A call that fails may have skipped a number, but never
    /// repeats one.
    ///
    /// # Errors
    /// The name or the key is invalid, there is no such namespace, the sequence is exhausted, or no
    /// server answered before the deadline.
    pub async fn next(&self, key: impl Into<KeyBuf>) -> Result<IssuedRange, Error> {
        self.next_item(&NextItem::new(key)).await
    }

    /// Takes the next `count` numbers of a key, 1 to 100,000.
    ///
    /// # Errors
    /// As [`NamespaceHandle::next`]; also if the count is outside its limits.
    pub async fn next_n(&self, key: impl Into<KeyBuf>, count: u32) -> Result<IssuedRange, Error> {
        self.next_item(&NextItem::new(key).with_count(count)).await
    }

    /// Takes numbers of one item, such as a [`NextItem`] with a floor.
    ///
    /// # Errors
    /// As [`NamespaceHandle::next_n`]; also if the floor is above every number given out.
    pub async fn next_item<I: BatchItem>(&self, item: &I) -> Result<IssuedRange, Error> {
        let call: SingleCall<'_, NextCall<I>> = SingleCall {
            namespace: self.valid_name()?,
            item,
        };
        call.run(&self.context).await
    }

    /// Takes numbers of many keys, in parallel from their owners: of uids as they are, of keys, or
    /// of [`NextItem`]s that say more. Returns one result an item, in their order. One bad or slow
    /// item never fails or delays the others, and the client retries only failed items.
    pub async fn next_batch<I: BatchItem>(&self, items: &[I]) -> Vec<Result<IssuedRange, Error>> {
        match self.valid_name() {
            Ok(name) => call_batch::<NextCall<I>>(&self.context, name, items).await,
            Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Returns the last number that was given out, without taking one.
    ///
    /// # Errors
    /// As [`NamespaceHandle::next`].
    pub async fn current(&self, key: impl Into<KeyBuf>) -> Result<Current, Error> {
        let call: SingleCall<'_, CurrentCall<KeyBuf>> = SingleCall {
            namespace: self.valid_name()?,
            item: &key.into(),
        };
        call.run(&self.context).await
    }

    /// Returns the last numbers of many keys, without taking any: one result a key, in their order.
    pub async fn current_batch<I: BatchItem>(&self, keys: &[I]) -> Vec<Result<Current, Error>> {
        match self.valid_name() {
            Ok(name) => call_batch::<CurrentCall<I>>(&self.context, name, keys).await,
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Makes every later number of a key greater than `value`, rounded up to the namespace's next
    /// number. Never lowers a number. The call begins when it is awaited.
    pub fn raise_to(&self, key: impl Into<KeyBuf>, value: u64) -> RaiseToCall<'_> {
        RaiseToCall {
            context: &self.context,
            namespace: &self.name,
            name_error: self.name_error.clone(),
            key: key.into(),
            value,
            force: false,
        }
    }

    /// Returns where a key belongs and which server owns it, by the routing table of the client.
    ///
    /// # Errors
    /// As [`NamespaceHandle::next`].
    pub async fn route(&self, key: impl Into<KeyBuf>) -> Result<(SectionKey, Slot, Route), Error> {
        let (namespace, key) = (self.valid_name()?, key.into());
        let name = namespace_name(namespace, key.as_ref());
        let mut budget = RetryBudget::new(self.context.deadline);
        let core = &self.context.core;
        loop {
            let snapshot = get_table(core, &[name], &mut budget).await;
            let located = snapshot.and_then(|snapshot| {
                let location = locate(&snapshot.table, namespace, key.as_ref())?;
                let route = snapshot.table.route(location.slot).cloned();
                Ok((location.section, location.slot, route.unwrap_or_default()))
            });
            match located {
                Ok(located) => return Ok(located),
                Err(failure) => budget.pause_for_retry(core, &failure).await?,
            }
        }
    }

    /// Returns the name, or why it is invalid.
    #[inline]
    fn valid_name(&self) -> Result<&str, Error> {
        match &self.name_error {
            None => Ok(&self.name),
            Some(error) => Err(error.clone()),
        }
    }
}
