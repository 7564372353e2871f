//! Wire types to core types and back. Whatever comes from the wire is checked here, once.

use std::collections::HashMap;

use bytes::Bytes;
use seqsvr_core::command::{Cause, Command, Fence, Final, Refusal, Reply, SlotFinal};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::id::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot, Uid,
};
use seqsvr_core::namespace::{Limits, Namespace, STEP_DEFAULT, Spec};
use seqsvr_core::progression::Progression;
use seqsvr_core::route::{Delta, KeyRef, Owner, Route};

use crate::v1;

/// A message that does not have the form the contract asks for; the text says which part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct Malformed(pub &'static str);

/// 16 bytes of a 128-bit value, big-endian.
pub fn u128_bytes(value: u128) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

/// Reads a 128-bit value.
pub fn u128_from(bytes: &[u8], what: &'static str) -> Result<u128, Malformed> {
    Ok(u128::from_be_bytes(
        bytes.try_into().map_err(|_| Malformed(what))?,
    ))
}

fn slot_from(slot: u32) -> Result<Slot, Malformed> {
    Ok(Slot(u16::try_from(slot).map_err(|_| Malformed("slot"))?))
}

impl From<&Namespace> for v1::Namespace {
    fn from(n: &Namespace) -> v1::Namespace {
        let spec = &n.spec;
        v1::Namespace {
            id: n.id.0,
            name: spec.name.clone(),
            geometry: Some(match spec.geometry {
                Geometry::Dense {
                    section_size,
                    max_uid,
                } => v1::namespace::Geometry::Dense(v1::Dense {
                    section_size,
                    max_uid,
                }),
                Geometry::Keyed { sections } => {
                    v1::namespace::Geometry::Keyed(v1::Keyed { sections })
                }
            }),
            start: spec.progression.start,
            stride: spec.progression.stride,
            offset: spec.progression.offset,
            step: spec.step,
            step_max: spec.limits.step_max,
            raise_to_max: spec.limits.raise_to_max,
            strict: spec.limits.strict,
            version: n.version,
        }
    }
}

/// A namespace's settings; absent (zero) numbers take the defaults.
pub fn spec_from(n: &v1::Namespace) -> Result<Spec, Malformed> {
    let or = |value: u32, default: u32| if value == 0 { default } else { value };
    let geometry = match n
        .geometry
        .as_ref()
        .ok_or(Malformed("namespace without a geometry"))?
    {
        v1::namespace::Geometry::Dense(d) => Geometry::Dense {
            section_size: or(d.section_size, 100_000),
            max_uid: if d.max_uid == 0 { 1 << 32 } else { d.max_uid },
        },
        v1::namespace::Geometry::Keyed(k) => Geometry::Keyed {
            sections: or(k.sections, 4_096),
        },
    };
    let step = or(n.step, STEP_DEFAULT);
    Ok(Spec {
        name: n.name.clone(),
        geometry,
        progression: Progression {
            start: n.start.max(1),
            stride: or(n.stride, 1),
            offset: n.offset,
        },
        step,
        limits: Limits {
            step_max: or(n.step_max, Limits::DEFAULT.step_max.max(step)),
            raise_to_max: if n.raise_to_max == 0 {
                Limits::DEFAULT.raise_to_max
            } else {
                n.raise_to_max
            },
            strict: n.strict,
        },
    })
}

impl TryFrom<&v1::Namespace> for Namespace {
    type Error = Malformed;

    fn try_from(n: &v1::Namespace) -> Result<Namespace, Malformed> {
        let spec = spec_from(n)?;
        spec.check()
            .map_err(|_| Malformed("namespace outside its bounds"))?;
        Ok(Namespace {
            id: NamespaceId(n.id),
            spec,
            version: n.version,
        })
    }
}

impl From<&Delta> for v1::RoutingTable {
    fn from(delta: &Delta) -> v1::RoutingTable {
        let mut table = v1::RoutingTable {
            cluster: u128_bytes(delta.cluster.0),
            base: delta.base,
            version: delta.version,
            slot_count: delta.slot_count,
            namespaces: delta.namespaces.iter().map(v1::Namespace::from).collect(),
            ..v1::RoutingTable::default()
        };
        let mut refs: HashMap<SessionId, u32> = HashMap::new();
        for (slot, route) in &delta.routes {
            let owner_ref = route.owner.as_ref().map_or(0, |owner| {
                *refs.entry(owner.session).or_insert_with(|| {
                    table.owners.push(v1::Owner {
                        session: owner.session.0,
                        name: owner.name.clone(),
                        address: owner.address.clone(),
                    });
                    table.owners.len() as u32
                })
            });
            table.slots.push(u32::from(slot.0));
            table.epochs.push(route.epoch.0);
            table.owner_refs.push(owner_ref);
            table.slot_versions.push(route.version);
        }
        table
    }
}

impl TryFrom<&v1::RoutingTable> for Delta {
    type Error = Malformed;

    fn try_from(table: &v1::RoutingTable) -> Result<Delta, Malformed> {
        let n = table.slots.len();
        if [
            table.epochs.len(),
            table.owner_refs.len(),
            table.slot_versions.len(),
        ] != [n; 3]
        {
            return Err(Malformed("routing table with columns of unequal length"));
        }
        if table.slot_count == 0 || table.slot_count > seqsvr_core::geometry::SLOTS_MAX {
            return Err(Malformed(
                "routing table with an impossible number of slots",
            ));
        }
        let owners: Vec<Owner> = table
            .owners
            .iter()
            .map(|o| Owner {
                session: SessionId(o.session),
                name: o.name.clone(),
                address: o.address.clone(),
            })
            .collect();
        let mut routes = Vec::with_capacity(n);
        for i in 0..n {
            let owner = match table.owner_refs[i] {
                0 => None,
                r => Some(
                    owners
                        .get(r as usize - 1)
                        .ok_or(Malformed("routing table: owner"))?
                        .clone(),
                ),
            };
            let route = Route {
                epoch: Epoch(table.epochs[i]),
                owner,
                version: table.slot_versions[i],
            };
            routes.push((slot_from(table.slots[i])?, route));
        }
        Ok(Delta {
            cluster: ClusterId(u128_from(&table.cluster, "cluster id")?),
            base: table.base,
            version: table.version,
            slot_count: table.slot_count,
            namespaces: table
                .namespaces
                .iter()
                .map(Namespace::try_from)
                .collect::<Result<_, _>>()?,
            routes,
        })
    }
}

impl From<Fence> for v1::Fence {
    fn from(f: Fence) -> v1::Fence {
        v1::Fence {
            slot: u32::from(f.slot.0),
            epoch: f.epoch.0,
            namespace: f.section.namespace.0,
            section: f.section.section.0,
        }
    }
}

impl TryFrom<&v1::Fence> for Fence {
    type Error = Malformed;

    fn try_from(f: &v1::Fence) -> Result<Fence, Malformed> {
        Ok(Fence {
            slot: slot_from(f.slot)?,
            epoch: Epoch(f.epoch),
            section: SectionKey {
                namespace: NamespaceId(f.namespace),
                section: SectionId(f.section),
            },
        })
    }
}

/// A section command as the state takes it. `last_generation` answers for an `Open` that does not
/// say which generation it expects.
pub fn command_from(
    wire: &v1::SectionCommand,
    last_generation: impl FnOnce(SectionKey) -> Generation,
) -> Result<Command, Malformed> {
    let fence = Fence::try_from(
        wire.fence
            .as_ref()
            .ok_or(Malformed("section command without a fence"))?,
    )?;
    Ok(
        match wire
            .command
            .as_ref()
            .ok_or(Malformed("empty section command"))?
        {
            v1::section_command::Command::Open(o) => Command::Open {
                fence,
                expected: o
                    .expected
                    .map_or_else(|| last_generation(fence.section), Generation),
                nonce: Nonce(u128_from(&o.nonce, "nonce")?),
                step: o.step,
            },
            v1::section_command::Command::Raise(r) => Command::Raise {
                fence,
                generation: Generation(r.generation),
                to: r.to,
                cause: if r.raise_to {
                    Cause::RaiseTo { force: r.force }
                } else {
                    Cause::Refill
                },
            },
            v1::section_command::Command::Close(c) => Command::CloseSection {
                fence,
                generation: Generation(c.generation),
                value: c.value,
            },
        },
    )
}

/// A final of a closing session.
pub fn final_from(wire: &v1::SectionFinal) -> Result<SlotFinal, Malformed> {
    let fence = Fence::try_from(
        wire.fence
            .as_ref()
            .ok_or(Malformed("final without a fence"))?,
    )?;
    let last = Final {
        section: fence.section,
        generation: Generation(wire.generation),
        value: wire.value,
    };
    Ok(SlotFinal {
        slot: fence.slot,
        epoch: fence.epoch,
        last,
    })
}

/// The reply to a section command.
pub fn section_reply(reply: &Reply) -> v1::SectionReply {
    use v1::section_reply::Reply as Wire;
    let wire = match reply {
        Reply::Opened {
            generation,
            base,
            max_seq,
        } => Wire::Opened(v1::Opened {
            generation: generation.0,
            base: *base,
            max_seq: *max_seq,
        }),
        Reply::Raised {
            generation,
            max_seq,
        } => Wire::Raised(v1::Raised {
            generation: generation.0,
            max_seq: *max_seq,
        }),
        Reply::Closed {
            generation,
            max_seq,
        } => Wire::Closed(v1::Raised {
            generation: generation.0,
            max_seq: *max_seq,
        }),
        Reply::Refused(refusal) => Wire::Refused(refused(refusal)),
        other => Wire::Refused(v1::Refused {
            kind: v1::refused::Kind::Invalid.into(),
            message: format!("unexpected reply {other:?}"),
            ..v1::Refused::default()
        }),
    };
    v1::SectionReply { reply: Some(wire) }
}

fn refused(refusal: &Refusal) -> v1::Refused {
    use v1::refused::Kind;
    let (kind, value, refused) = match refusal {
        Refusal::NotOwner { epoch, .. } => (Kind::NotOwner, epoch.0, 0),
        Refusal::StaleGeneration { refused, last, .. } => {
            (Kind::StaleGeneration, last.0, refused.0)
        }
        Refusal::AboveBound { bound, .. } => (Kind::AboveBound, *bound, 0),
        Refusal::Exhausted(_) => (Kind::Exhausted, 0, 0),
        Refusal::NoSuchNamespace(_) => (Kind::NoSuchNamespace, 0, 0),
        _ => (Kind::Invalid, 0, 0),
    };
    v1::Refused {
        kind: kind.into(),
        message: refusal.to_string(),
        value,
        refused,
    }
}

/// What a request's `uid` or `key` means.
pub trait Keyed {
    /// The key; None if the request has neither.
    fn key_ref(&self) -> Option<KeyRef<'_>>;
}

macro_rules! keyed {
    ($message:ty, $uid:path, $key:path) => {
        impl Keyed for $message {
            fn key_ref(&self) -> Option<KeyRef<'_>> {
                match self.key_kind.as_ref()? {
                    $uid(uid) => Some(KeyRef::Uid(Uid(*uid))),
                    $key(key) => Some(KeyRef::Key(key)),
                }
            }
        }
    };
}

keyed!(
    v1::NextRequest,
    v1::next_request::KeyKind::Uid,
    v1::next_request::KeyKind::Key
);
keyed!(
    v1::CurrentRequest,
    v1::current_request::KeyKind::Uid,
    v1::current_request::KeyKind::Key
);
keyed!(
    v1::RaiseToRequest,
    v1::raise_to_request::KeyKind::Uid,
    v1::raise_to_request::KeyKind::Key
);

/// The namespace a request means: an empty name is `default` for a uid and `keys` for a key.
pub fn namespace_name<'a>(name: &'a str, key: KeyRef<'_>) -> &'a str {
    match (name, key) {
        ("", KeyRef::Uid(_)) => seqsvr_core::namespace::DEFAULT,
        ("", KeyRef::Key(_)) => seqsvr_core::namespace::KEYS,
        (name, _) => name,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seqsvr_core::command::{Batch, OpenSession};
    use seqsvr_core::state::State;

    use super::*;

    #[test]
    fn a_table_survives_the_wire() {
        let mut state = State::default();
        let open = OpenSession {
            name: "a1".into(),
            address: "127.0.0.1:7700".into(),
            incarnation: 7,
            nonce: Nonce(1),
            proof: None,
        };
        let assign = |slot| Command::Assign {
            slot: Slot(slot),
            from: Epoch(0),
            to: SessionId(1),
        };
        let commands = vec![
            Command::Init {
                cluster: ClusterId(9),
                lease_ms: 3000,
                slots: 8,
            },
            Command::OpenSession(open),
            assign(0),
            assign(5),
        ];
        state.apply(1, &Batch { commands }, &mut BTreeSet::new());
        for base in 0..=state.table_version() {
            let delta = state.delta_since(base).unwrap();
            assert_eq!(
                Delta::try_from(&v1::RoutingTable::from(&delta)).unwrap(),
                delta
            );
        }
    }

    #[test]
    fn malformed_tables_are_refused() {
        let table = v1::RoutingTable {
            cluster: u128_bytes(1),
            slot_count: 8,
            slots: vec![1],
            ..Default::default()
        };
        assert!(Delta::try_from(&table).is_err());
        let table = v1::RoutingTable {
            cluster: u128_bytes(1),
            slot_count: u32::MAX,
            ..Default::default()
        };
        assert!(Delta::try_from(&table).is_err());
    }
}
