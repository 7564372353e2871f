//! The handle of a family of ids.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use seqsvr_core::family::{family_name, no_family_text};
use seqsvr_core::layout::InputError;
use seqsvr_ids::presets::{IdReading, IdScheme};
use seqsvr_proto::v1::Reason;
use tonic::Code;

use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;
use crate::call::context::CallContext;
use crate::call::retry_budget::RetryBudget;
use crate::call::table_fetch::get_table_with;
use crate::error::Error;
use crate::ids::local_ids::LocalIds;
use crate::ids::local_options::LocalOptions;
use crate::ids::take_ids::take_ids;
use crate::pipe::FRAME_IDS_MAX;
use crate::routing::family_cache::ClientFamily;

/// Maximum ids of one call of [`FamilyHandle::many`]; it rejects a greater count.
const IDS_MAX: u32 = 1_000_000;
/// Time whose ids one request takes, at least those of a tick: a server that must wait longer than
/// an attempt loses what it has taken.
const PART_MS: u64 = 100;

/// A family of ids that carry the time: [`Client::family`](crate::Client::family) creates it.
///
/// No id of a family is given twice. Each id that one client receives is greater than all that it
/// received before, from any server, if ids of the family rise. A handle is cheap to clone.
///
/// ```no_run
/// # async fn example() -> Result<(), seqsvr_client::Error> {
/// use seqsvr_client::{Client, ClientOptions};
///
/// let client = Client::new(ClientOptions::new(["127.0.0.1:7700"]))?;
/// let orders = client.family("orders").await?;
/// let id = orders.next().await?;
/// let more = orders.many(1_000).await?;
/// assert!(more.iter().all(|other| *other > id));
///
/// let read = orders.decode(id)?;
/// println!("worker {} at Unix time {} ms", read.parts.worker, read.time_ms);
/// // All ids of that second, for `WHERE id BETWEEN ? AND ?`.
/// let second = orders.range(read.time_ms..read.time_ms + 1_000)?;
/// println!("{} to {}", second.start(), second.end());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct FamilyHandle {
    context: CallContext,
    family: Arc<ClientFamily>,
}

impl FamilyHandle {
    /// Finds a family in the routing table, or in a newer one. An empty name is `snowflake`.
    pub(crate) async fn find(context: CallContext, name: &str) -> Result<FamilyHandle, Error> {
        let (core, name) = (&context.core, family_name(name));
        let mut budget = RetryBudget::new(context.deadline);
        loop {
            let found = get_table_with(core, |table| table.family(name).is_some(), &mut budget);
            let found = found.await.and_then(|snapshot| {
                core.families.find(&snapshot.table, name).ok_or_else(|| {
                    let known = snapshot.table.families().iter();
                    let text = no_family_text(name, known.map(|family| family.spec.name.as_str()));
                    AttemptError::new(Reason::FamilyNotFound, RetryDecision::Stop, text)
                })
            });
            match found {
                Ok(family) => return Ok(FamilyHandle { context, family }),
                Err(failure) => budget.pause_for_retry(core, &failure).await?,
            }
        }
    }

    /// Returns the name of the family.
    pub fn name(&self) -> &str {
        &self.family.spec.name
    }

    /// Returns the layout of its ids, with the time of tick 0 and the length of a tick.
    pub fn scheme(&self) -> &IdScheme {
        &self.family.scheme
    }

    /// Takes an id. A call that fails may have skipped some, but never repeats one.
    ///
    /// # Errors
    /// The family is frozen or its time is over, or no server answered before the deadline.
    pub async fn next(&self) -> Result<u64, Error> {
        let mut budget = RetryBudget::for_ids(self.context.deadline);
        let ids = take_ids(&self.context.core, &self.family, 1, &mut budget).await?;
        Ok(ids.as_slice()[0])
    }

    /// Takes `count` ids, 1 to 1,000,000, which rise if ids of the family rise. More than 10,000,
    /// or than a worker makes in 100 ms, take several requests, one after the other, within the
    /// deadline of the client.
    ///
    /// # Errors
    /// As [`FamilyHandle::next`]; also if the count is outside its limits.
    pub async fn many(&self, count: u32) -> Result<Vec<u64>, Error> {
        if count == 0 || count > IDS_MAX {
            return Err(Error::invalid(format!(
                "count must be 1 to {IDS_MAX}, not {count}: take more in several calls"
            )));
        }
        let (count, spec) = (count as usize, &self.family.spec);
        let ticks = (PART_MS / spec.scale.unit_ms()).max(1);
        // Numbers of a tick have 30 bits.
        let part_max = FRAME_IDS_MAX.min((spec.capacity() * ticks) as usize);
        let mut budget = RetryBudget::for_ids(self.context.deadline);
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            let part = (count - all.len()).min(part_max);
            let ids = take_ids(&self.context.core, &self.family, part, &mut budget).await?;
            all.extend_from_slice(ids.as_slice());
        }
        Ok(all)
    }

    /// Acquires a worker for this process, which then makes ids without a call to a server. Waits
    /// until it is granted. Must be called in the runtime in which it is to be renewed.
    ///
    /// # Errors
    /// All workers are held, the family is frozen, or no server answered before the deadline of the
    /// client; or the options are invalid.
    pub async fn local(&self, options: LocalOptions) -> Result<LocalIds, Error> {
        LocalIds::start(&self.context, &self.family.spec, options).await
    }

    /// Reads an id: its parts, and the Unix time in milliseconds at which its tick begins. Calls no
    /// server, and compares the time with no clock.
    ///
    /// # Errors
    /// The number is no id of this family.
    pub fn decode(&self, id: u64) -> Result<IdReading, Error> {
        self.family
            .decode(id)
            .map_err(|InputError(text)| Error::new(Code::InvalidArgument, Reason::NotAnId, text))
    }

    /// Returns the least and the greatest id of a time, in milliseconds of Unix time; its end does
    /// not belong to it. Ticks count as a whole. Calls no server.
    ///
    /// # Errors
    /// Ids of this family are not in the order of time, or none is of this time.
    pub fn range(&self, time_ms: Range<u64>) -> Result<RangeInclusive<u64>, Error> {
        let range = self.family.scheme.range_of_time(time_ms);
        range.map_err(|InputError(text)| Error::invalid(text))
    }
}
