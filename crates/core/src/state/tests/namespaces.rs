//! Namespaces: created once, changed one value at a time.

use super::*;

#[test]
fn namespaces_are_created_once_and_altered_without_needless_versions() {
    let mut state = cluster();
    let spec = NamespaceSpec::new("n", Geometry::Keyed { sections: 4 });
    let id = Reply::Namespace(NamespaceId(3));
    assert_eq!(state.one(Command::CreateNamespace(spec.clone())), id);
    let version = state.table_version();
    assert_eq!(state.one(Command::CreateNamespace(spec.clone())), id);
    let (step, limits) = (spec.step, spec.limits);
    let other = NamespaceSpec {
        step: 7,
        ..spec.clone()
    };
    let exists = CommandRejection::NamespaceExists("n".into());
    assert_eq!(
        state.one(Command::CreateNamespace(other)),
        Reply::Rejected(exists)
    );
    let alter = |id, step| Command::AlterNamespace { id, step, limits };
    assert_eq!(state.one(alter(NamespaceId(3), step)), Reply::Done);
    assert_eq!(state.table_version(), version, "nothing was changed");
    assert_eq!(state.one(alter(NamespaceId(3), 7)), Reply::Done);
    assert_eq!(state.table_version(), version + 1);
    let strict = Command::AlterNamespace {
        id: NamespaceId(3),
        step: 7,
        limits: NamespaceLimits {
            strict: true,
            ..limits
        },
    };
    assert!(!spec.limits.strict);
    assert_eq!(state.one(strict.clone()), Reply::Done);
    let delta = state.delta_since(version + 1).unwrap();
    assert_eq!((delta.version, delta.namespaces.len()), (version + 2, 1));
    assert!(delta.namespaces[0].spec.limits.strict, "owners learn it");
    assert_eq!(state.one(strict), Reply::Done);
    assert_eq!(state.table_version(), version + 2);
    let unknown = CommandRejection::NamespaceNotFound(NamespaceId(9));
    assert_eq!(
        state.one(alter(NamespaceId(9), 7)),
        Reply::Rejected(unknown)
    );
}

/// Schedule: two operators read strict = false; one makes the namespace strict, the other changes
/// its step. In every order, and although each is repeated late, both hold.
#[test]
fn namespace_change_of_one_value_keeps_the_others() {
    let change = |change| Command::ChangeNamespace {
        id: NamespaceId(1),
        change,
    };
    let strict = change(NamespaceChange {
        strict: Some(true),
        ..NamespaceChange::default()
    });
    let step = change(NamespaceChange {
        step: Some(7),
        step_max: Some(70),
        ..NamespaceChange::default()
    });
    for order in [[&strict, &step, &strict], [&step, &strict, &step]] {
        let mut state = cluster();
        let before = state.namespace(NamespaceId(1)).unwrap().spec.limits;
        for command in order {
            assert_eq!(state.one(command.clone()), Reply::Done);
        }
        let spec = &state.namespace(NamespaceId(1)).unwrap().spec;
        let expected = NamespaceLimits {
            step_max: 70,
            strict: true,
            ..before
        };
        assert_eq!((spec.step, spec.limits), (7, expected));
    }
    let mut state = cluster();
    let bad = change(NamespaceChange {
        step_max: Some(7),
        ..NamespaceChange::default()
    });
    let version = state.table_version();
    assert!(matches!(
        state.one(bad),
        Reply::Rejected(CommandRejection::Invalid(_))
    ));
    assert_eq!(state.one(change(NamespaceChange::default())), Reply::Done);
    assert_eq!(state.table_version(), version);
}

#[test]
fn full_table_of_namespaces_is_a_rejection_of_its_own() {
    let mut state = cluster();
    let create = |n: usize| {
        Command::CreateNamespace(NamespaceSpec::new(
            &format!("n{n}"),
            Geometry::Keyed { sections: 4 },
        ))
    };
    for n in state.namespaces().count()..NAMESPACES_MAX {
        assert!(matches!(state.one(create(n)), Reply::Namespace(_)));
    }
    let rejected = Reply::Rejected(CommandRejection::TooManyNamespaces);
    assert_eq!(state.one(create(NAMESPACES_MAX)), rejected);
}
