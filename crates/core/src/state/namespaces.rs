//! Namespace commands. Geometry, start, stride and offset never change after creation.

use std::collections::BTreeSet;

use super::apply::CommandOutcome;
use super::{RowKey, State};
use crate::command::{CommandRejection, Reply};
use crate::ids::NamespaceId;
use crate::namespace::{
    NAMESPACES_MAX, Namespace, NamespaceChange, NamespaceLimits, NamespaceSpec, validate_step,
};

impl State {
    pub(super) fn create_namespace(
        &mut self,
        spec: &NamespaceSpec,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        spec.validate().map_err(CommandRejection::Invalid)?;
        if let Some(found) = self.find_namespace(&spec.name) {
            // A retry after a lost answer, or a second operator with the same request.
            let same = found.spec == *spec;
            return if same {
                Ok(Reply::Namespace(found.id))
            } else {
                Err(CommandRejection::NamespaceExists(spec.name.clone()))
            };
        }
        if self.namespaces.len() >= NAMESPACES_MAX {
            return Err(CommandRejection::TooManyNamespaces);
        }
        let version = self.bump_version(touched);
        let cluster = self
            .cluster
            .as_mut()
            .ok_or(CommandRejection::NotInitialized)?;
        let id = NamespaceId(cluster.next_namespace);
        cluster.next_namespace += 1;
        self.namespaces.insert(
            id,
            Namespace {
                id,
                spec: spec.clone(),
                version,
            },
        );
        touched.insert(RowKey::Namespace(id));
        Ok(Reply::Namespace(id))
    }

    /// Changes only what the command names.
    ///
    /// Invariant: an alteration that was acknowledged holds until one that names the same value.
    /// Schedule that breaks it with absolute values: two handlers read strict = false. The first
    /// one's command sets it. The second one's, about the step, writes false back. Both are
    /// acknowledged.
    pub(super) fn change_namespace(
        &mut self,
        id: NamespaceId,
        change: &NamespaceChange,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let found = self.namespaces.get(&id);
        let found = found.ok_or(CommandRejection::NamespaceNotFound(id))?;
        let (step, limits) = change.apply_to(&found.spec);
        self.alter_namespace(id, step, limits, touched)
    }

    pub(super) fn alter_namespace(
        &mut self,
        id: NamespaceId,
        step: u32,
        limits: NamespaceLimits,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        validate_step(step, &limits).map_err(CommandRejection::Invalid)?;
        let found = self.namespaces.get(&id);
        let found = found.ok_or(CommandRejection::NamespaceNotFound(id))?;
        if (found.spec.step, found.spec.limits) == (step, limits) {
            // A retry after a lost answer: there is nothing new for clients, so no new table
            // version.
            return Ok(Reply::Done);
        }
        let version = self.bump_version(touched);
        if let Some(namespace) = self.namespaces.get_mut(&id) {
            namespace.spec.step = step;
            namespace.spec.limits = limits;
            namespace.version = version;
            touched.insert(RowKey::Namespace(id));
        }
        Ok(Reply::Done)
    }
}
