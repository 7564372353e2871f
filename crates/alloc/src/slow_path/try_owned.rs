//! Takes numbers from owned sections, and checks the right to answer them.
//!
//! One check serves all items of a pass, because all had been received before the pass began.
//! `session/serving_check.rs` states the check and the schedules that break it.

use std::sync::Arc;

use seqsvr_core::namespace::Namespace;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_core::section::{CurrentValue, TakeError};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{CurrentKind, Reason};
use tonic::Code;

use crate::batch::item::{ItemAnswer, ItemLocation, ItemOperation, RequestItem};
use crate::batch::request_context::RequestContext;
use crate::sections::loaded_section::LoadedSection;
use crate::sections::refiller::WindowRaise;
use crate::sections::section_map::PinnedSections;
use crate::session::leased_session::LeasedSession;
use crate::session::serving_check::{Confirmed, ServingCheck};
use crate::slow_path::SlowPath;
use crate::slow_path::miss_reason::MissReason;
use crate::store_client::unavailable::no_lease_text;

/// Answer that still has to pass the check.
struct PendingAnswer<'m> {
    index: u32,
    loaded: &'m Arc<LoadedSection>,
    answer: ItemAnswer,
}

impl SlowPath {
    /// Answers what it can of `todo` from owned sections, and returns the miss reason of every
    /// other item.
    pub(crate) fn try_owned(
        &self,
        call: &RequestContext,
        table: &Arc<RoutingTable>,
        namespace: &Namespace,
        items: &[RequestItem],
        todo: &[u32],
        answers: &mut [Option<Result<ItemAnswer, RpcError>>],
    ) -> Vec<(u32, MissReason)> {
        let mut misses = Vec::new();
        let mut taken: Vec<PendingAnswer<'_>> = Vec::with_capacity(todo.len());
        let session = self.shared.session.peek();
        let check = session
            .as_ref()
            .map(|session| ServingCheck::begin(table, session));
        let has_lease = self.shared.session.has_lease();
        let map = self.sections.map.pin();
        for &index in todo {
            let item = &items[index as usize];
            match self.take_item(table, namespace, check.as_ref(), has_lease, &map, item) {
                Ok((loaded, answer)) => taken.push(PendingAnswer {
                    index,
                    loaded,
                    answer,
                }),
                Err(miss) => misses.push((index, miss)),
            }
        }
        let Some(check) = check.filter(|_| !taken.is_empty()) else {
            return misses;
        };
        let (has_lease, newest) = match check.confirm(&self.shared.session, &self.shared.table) {
            Confirmed::All => (true, None),
            Confirmed::TableChanged(newest) => (true, Some(newest)),
            Confirmed::LeaseLost => (false, None),
        };
        let newest = newest.as_deref();
        // Strict by either table: the one of this pass was read after the request was received, and
        // the namespace may have become strict while this node had no lease (see `fast_path`).
        let strict = call.strict
            || namespace.spec.limits.strict
            || newest.is_some_and(|newest| newest.is_strict(namespace));
        let mut numbers = 0;
        for PendingAnswer {
            index,
            loaded,
            answer,
        } in taken
        {
            if !has_lease || newest.is_some_and(|newest| !loaded.is_current(newest)) {
                let count = items[index as usize].operation.number_count();
                self.shared.counters.numbers_discarded.add(count);
                misses.push((index, self.miss_without_lease()));
            } else if strict {
                misses.push((index, MissReason::ConfirmAnswer(loaded.clone(), answer)));
            } else {
                if let ItemAnswer::Numbers { first, last, .. } = answer {
                    numbers += (last - first) / loaded.section.stride() + 1;
                    self.shared.counters.next_items.add(1);
                }
                answers[index as usize] = Some(Ok(answer));
            }
        }
        self.shared.counters.numbers_issued.add(numbers);
        misses
    }

    /// Takes the answer of an item from its section, or returns its miss reason. The answer still
    /// has to pass the check.
    fn take_item<'m>(
        &self,
        table: &RoutingTable,
        namespace: &Namespace,
        check: Option<&ServingCheck<'_>>,
        has_lease: bool,
        map: &'m PinnedSections<'_>,
        item: &RequestItem,
    ) -> Result<(&'m Arc<LoadedSection>, ItemAnswer), MissReason> {
        let location = ItemLocation::locate(item.key.as_ref(), namespace, table);
        let location = location.map_err(MissReason::Final)?;
        let session = check.map(|check| check.session().as_ref());
        self.check_owner(table, session, &location)?;
        let is_servable = |l: &&Arc<LoadedSection>| {
            check.is_some_and(|check| l.is_current_in(check)) && !l.section.is_sealed()
        };
        let Some(loaded) = map.get(&location.section).filter(is_servable) else {
            return Err(self.miss_of_unloaded(table, &location, item.operation));
        };
        // Only spares numbers that would be discarded. The check after taking decides.
        if !has_lease {
            return Err(self.miss_without_lease());
        }
        if item.epoch > loaded.fence.epoch.0 {
            return Err(MissReason::VerifyOwnership(loaded.clone()));
        }
        let answer = self.apply_operation(namespace, loaded, &location, item.operation)?;
        Ok((loaded, answer))
    }

    fn apply_operation(
        &self,
        namespace: &Namespace,
        loaded: &Arc<LoadedSection>,
        location: &ItemLocation<'_>,
        operation: ItemOperation,
    ) -> Result<ItemAnswer, MissReason> {
        let section = &loaded.section;
        let epoch = loaded.fence.epoch;
        let miss_from_refusal = |refusal| miss_from_refusal(refusal, loaded, location);
        match operation {
            ItemOperation::Next { count, floor } => {
                let count_max = namespace.spec.count_max();
                if count.get() > count_max {
                    return Err(MissReason::Final(count_too_large(count.get(), count_max)));
                }
                let range = section
                    .next(location.key_in_section(), count)
                    .map_err(miss_from_refusal)?;
                if loaded.should_raise() {
                    self.refiller.start_refill(loaded);
                }
                if range.first <= floor {
                    self.shared
                        .counters
                        .numbers_discarded
                        .add(operation.number_count());
                    return Err(MissReason::VerifyOwnership(loaded.clone()));
                }
                Ok(ItemAnswer::Numbers {
                    first: range.first,
                    last: range.last,
                    epoch,
                })
            }
            ItemOperation::Current => {
                let current = loaded.read_current(location.key_in_section(), namespace);
                let (kind, value) = current.ok_or(MissReason::Read(location.section))?;
                Ok(ItemAnswer::Current { kind, value, epoch })
            }
            ItemOperation::RaiseTo {
                value,
                force,
                if_none,
            } => {
                let target = namespace
                    .spec
                    .progression
                    .round_up(value)
                    .ok_or_else(|| MissReason::Final(sequence_exhausted()))?;
                let key = location.key_in_section();
                if if_none && let Some((kind, value)) = loaded.read_current(key, namespace) {
                    // What it has before the window is raised: a raise for nothing would leave
                    // numbers unused.
                    if kind != CurrentKind::Never {
                        return Ok(ItemAnswer::Raised {
                            value,
                            had_number: true,
                            epoch,
                        });
                    }
                }
                if section.max_seq() < target {
                    let raise = WindowRaise {
                        to: target,
                        force,
                        if_none,
                    };
                    return Err(MissReason::Raise(loaded.clone(), raise));
                }
                // The window is durable up to the target, so only memory has to be set. This is
                // done in an unsealed object of the generation that was raised, or not at all.
                let (current, has_moved) = match if_none {
                    true => section.raise_untouched(key, target),
                    false => section.raise_to(key, target).map(|current| (current, true)),
                }
                .map_err(miss_from_refusal)?;
                let value = match current {
                    CurrentValue::Touched(n) => n,
                    CurrentValue::Untouched => target,
                };
                loaded.record_jump();
                if loaded.should_raise() {
                    self.refiller.start_refill(loaded);
                }
                Ok(ItemAnswer::Raised {
                    value,
                    had_number: !has_moved,
                    epoch,
                })
            }
        }
    }

    /// Returns what an item of a loaded section waits for while there is no lease.
    fn miss_without_lease(&self) -> MissReason {
        let text = no_lease_text(&self.shared.identity, &self.stores);
        MissReason::Wait(Reason::NoLease, text)
    }

    /// Returns what an item of a section that is not loaded waits for.
    fn miss_of_unloaded(
        &self,
        table: &RoutingTable,
        location: &ItemLocation<'_>,
        operation: ItemOperation,
    ) -> MissReason {
        let epoch = table.route(location.slot).map(|route| route.epoch);
        if let ItemOperation::Current = operation {
            MissReason::Read(location.section)
        } else if epoch.is_some_and(|epoch| self.sections.is_frozen(location.slot, epoch)) {
            let text = format!("slot {} is moving to another AllocSvr", location.slot);
            MissReason::Wait(Reason::NotOwner, text)
        } else {
            MissReason::Open(location.section, location.slot)
        }
    }

    /// Checks that this node owns the slot of a key by the table.
    fn check_owner(
        &self,
        table: &RoutingTable,
        session: Option<&LeasedSession>,
        location: &ItemLocation<'_>,
    ) -> Result<(), MissReason> {
        let wait = |text| Err(MissReason::Wait(Reason::NotOwner, text));
        match table
            .route(location.slot)
            .and_then(|route| route.owner.as_ref())
        {
            None => wait(format!("slot {} has no owner yet", location.slot)),
            Some(owner) if session.is_some_and(|s| s.id == owner.session && s.is_alive()) => Ok(()),
            // The earlier process at this address is gone. A request to it would reach this
            // process.
            Some(owner) if owner.address == self.shared.identity.address => wait(format!(
                "slot {} is held by an earlier session of AllocSvr {:?} until its lease expires",
                location.slot, owner.name
            )),
            Some(owner) => Err(MissReason::Remote(owner.address.clone())),
        }
    }
}

fn miss_from_refusal(
    refusal: TakeError,
    loaded: &Arc<LoadedSection>,
    location: &ItemLocation<'_>,
) -> MissReason {
    match refusal {
        TakeError::WindowExhausted { needed } => MissReason::Refill(loaded.clone(), needed),
        TakeError::Sealed => MissReason::Open(location.section, location.slot),
        TakeError::SequenceExhausted => MissReason::Final(sequence_exhausted()),
        TakeError::SectionFull => {
            // No retry helps: the section takes no more keys.
            let error = RpcError::new(Reason::LimitExceeded, refusal.to_string());
            MissReason::Final(error.with_code(Code::ResourceExhausted))
        }
        // `evictor` closes sections, then the item is retried.
        TakeError::MemoryExhausted => MissReason::NoMemory,
        TakeError::WrongSection => {
            MissReason::Final(RpcError::new(Reason::Unspecified, refusal.to_string()))
        }
    }
}

fn count_too_large(count: u32, max: u32) -> RpcError {
    let text = format!(
        "count must be 1 to {max} in this namespace, not {count}: a window holds no more; split the request"
    );
    RpcError::new(Reason::LimitExceeded, text)
}

fn sequence_exhausted() -> RpcError {
    RpcError::new(
        Reason::SequenceExhausted,
        "the sequence would pass 2^63-1, the last number there is; use another key or a namespace with a lower start",
    )
}
