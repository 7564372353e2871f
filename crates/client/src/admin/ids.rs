//! Calls of operators about families of ids, their workers, and store time.

use seqsvr_core::family::{Family, FamilyChange, FamilyLimits, FamilySpec, validate_family};
use seqsvr_core::ids::{FamilyId, WorkerId};
use seqsvr_proto::v1::change_ids_request::Change;
use seqsvr_proto::v1::{self, ChangeIdsRequest, FamilyStatus, IdsStatus, ListIdsRequest, Reason};

use super::Admin;
use crate::error::Error;

impl Admin {
    /// Creates a family of ids. A repeated call with the same settings returns the same family.
    pub async fn create_family(
        &self,
        spec: &FamilySpec,
        limits: FamilyLimits,
    ) -> Result<Family, Error> {
        validate_family(spec, &limits).map_err(Error::invalid)?;
        let wire = Family {
            id: FamilyId(0),
            spec: spec.clone(),
            limits,
            version: 0,
        };
        let create = Change::Create(v1::Family::from(&wire));
        family_of(self.change_ids("", create, false).await?.families.first())
    }

    /// Changes limits of a family. Holders see them at their next renewal.
    pub async fn alter_family(&self, name: &str, change: FamilyChange) -> Result<Family, Error> {
        let alter = Change::Alter(change.into());
        family_of(self.change_ids(name, alter, false).await?.families.first())
    }

    /// Returns all families with their floors, and store time with the clocks that it follows.
    pub async fn ids_status(&self) -> Result<IdsStatus, Error> {
        self.send_request(ListIdsRequest::default()).await
    }

    /// Makes every later grant of a family begin at this tick or above. Returns the floor, which
    /// was higher already if it is above `tick`. More than the family's `ahead` in front of store
    /// time needs `force`.
    pub async fn raise_family(&self, name: &str, tick: u64, force: bool) -> Result<u64, Error> {
        let status = self.change_ids(name, Change::Raise(tick), force).await?;
        let raised = status.families.first().ok_or_else(incompatible)?;
        Ok(raised.floor)
    }

    /// Returns up to 1,000 workers of a family from this number on, by number.
    pub async fn list_workers(&self, family: &str, first: WorkerId) -> Result<IdsStatus, Error> {
        let request = ListIdsRequest {
            family: family.to_owned(),
            first_worker: Some(first.0),
        };
        self.send_request(request).await
    }

    /// Takes a worker from its holder. Returns the Unix time in milliseconds up to which the
    /// holder may still make ids.
    pub async fn revoke_worker(&self, family: &str, worker: WorkerId) -> Result<u64, Error> {
        let status = self.change_ids(family, Change::Revoke(worker.0), false);
        Ok(status.await?.revoked_until_ms)
    }

    /// Makes store time follow the clocks of the stores, also if they are suspect.
    pub async fn accept_clock(&self) -> Result<IdsStatus, Error> {
        let status = self.ids_status().await?;
        match status.suspect {
            true => self.set_clock(status.agreed_ms, true).await,
            false => Ok(status),
        }
    }

    /// Sets store time, also back. Without `force` it is rejected if workers without another
    /// lane have grants after that time, or if it is more than 30 days before the clocks.
    pub async fn set_clock(&self, unix_ms: u64, force: bool) -> Result<IdsStatus, Error> {
        let set = Change::SetTimeMs(unix_ms);
        self.change_ids("", set, force).await
    }

    async fn change_ids(
        &self,
        family: &str,
        change: Change,
        force: bool,
    ) -> Result<IdsStatus, Error> {
        let request = ChangeIdsRequest {
            family: family.to_owned(),
            force,
            change: Some(change),
        };
        self.send_request(request).await
    }
}

/// Returns the family of a status.
///
/// # Errors
/// There is none, or this version cannot read it.
pub fn family_of(status: Option<&FamilyStatus>) -> Result<Family, Error> {
    let family = status.and_then(|status| status.family.as_ref());
    let read = family.and_then(|family| Family::try_from(family).ok());
    read.ok_or_else(incompatible)
}

fn incompatible() -> Error {
    let text = "the server sent no family that this version can read; client and server versions are incompatible";
    Error::new(tonic::Code::Internal, Reason::Invalid, text)
}
