//! A replicated state with many sections.

use std::collections::BTreeSet;

use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_core::geometry::{Geometry, KEYED_SECTIONS_MAX};
use seqsvr_core::ids::{ClusterId, Generation, NamespaceId, Nonce, SectionId, SectionKey};
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_core::state::{RowKey, SectionRow, State, StateBuilder, StateRow};

const LEASE_MS: u32 = 3_000;
const SLOTS: u32 = 4_096;

/// Makes a state with so many sections, in keyed namespaces of the largest size. Every other one is
/// open.
///
/// # Errors
/// The state machine rejects a command.
pub(super) fn make(count: u64) -> Result<State, String> {
    let mut state = State::default();
    let init = Command::Init {
        cluster: ClusterId(rand::random()),
        lease_ms: LEASE_MS,
        slots: SLOTS,
    };
    apply(&mut state, init)?;
    let in_one = u64::from(KEYED_SECTIONS_MAX);
    let mut namespaces: Vec<NamespaceId> = Vec::new();
    for n in 0..count.div_ceil(in_one) {
        let geometry = Geometry::Keyed {
            sections: KEYED_SECTIONS_MAX,
        };
        let spec = NamespaceSpec::new(&format!("many-{n}"), geometry);
        match apply(&mut state, Command::CreateNamespace(spec))? {
            Reply::Namespace(id) => namespaces.push(id),
            other => return Err(format!("no namespace: {other:?}")),
        }
    }
    let mut builder = StateBuilder::default();
    state.rows().for_each(|(key, row)| builder.add(key, row));
    let sections = namespaces
        .iter()
        .flat_map(|namespace| (0..KEYED_SECTIONS_MAX).map(|n| (*namespace, n)));
    for (i, (namespace, n)) in (0..count).zip(sections) {
        let key = SectionKey {
            namespace,
            section: SectionId(n),
        };
        let section = SectionRow {
            max_seq: 10_000 + i,
            generation: Generation(1),
            base: 0,
            nonce: Nonce(rand::random()),
            open: i % 2 == 0,
            raised: 0,
        };
        builder.add(RowKey::Section(key), StateRow::Section(section));
    }
    let state = builder.finish();
    state.ok_or_else(|| String::from("the rows do not fit together"))
}

fn apply(state: &mut State, command: Command) -> Result<Reply, String> {
    let batch = Batch {
        commands: vec![command],
    };
    let mut replies = state.apply(1, &batch, &mut BTreeSet::new());
    match replies.pop() {
        Some(Reply::Rejected(refusal)) => Err(refusal.to_string()),
        Some(reply) => Ok(reply),
        None => Err(String::from("a command without a reply")),
    }
}
