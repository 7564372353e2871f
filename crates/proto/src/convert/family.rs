//! Families of ids.

use seqsvr_core::family::{Family, FamilyChange, FamilyLimits, FamilySpec, validate_family};
use seqsvr_core::ids::{FamilyId, WorkerId};
use seqsvr_core::layout::TickScale;

use super::DecodeError;
use crate::v1;

impl From<&Family> for v1::Family {
    fn from(family: &Family) -> v1::Family {
        let Family {
            id,
            spec,
            limits,
            version,
        } = family;
        let reserved = spec.reserved.iter();
        v1::Family {
            id: id.0,
            name: spec.name.clone(),
            layout: spec.layout.to_string(),
            epoch_ms: spec.scale.epoch_ms(),
            unit_ms: spec.scale.unit_ms(),
            dc: spec.dc,
            first_worker: spec.first_worker.0,
            last_worker: spec.last_worker.0,
            reserved: reserved
                .flat_map(|(first, last)| [first.0, last.0])
                .collect(),
            lanes_once: spec.lanes_once,
            reuse_never: spec.reuse_never,
            sticky: spec.sticky,
            seq_min: spec.seq_min,
            seq_max: spec.seq_max(),
            limits: Some(FamilyChange::from(*limits).into()),
            version: *version,
        }
    }
}

impl TryFrom<&v1::Family> for Family {
    type Error = DecodeError;

    fn try_from(family: &v1::Family) -> Result<Family, DecodeError> {
        let outside = || DecodeError("family outside its bounds");
        let (pairs, []) = family.reserved.as_chunks() else {
            return Err(DecodeError("family: a reserved range without its end"));
        };
        let range = |[first, last]: &[u32; 2]| (WorkerId(*first), WorkerId(*last));
        let spec = FamilySpec {
            name: family.name.clone(),
            layout: family.layout.parse().map_err(|_| outside())?,
            scale: TickScale::new(family.epoch_ms, family.unit_ms).map_err(|_| outside())?,
            dc: family.dc,
            first_worker: WorkerId(family.first_worker),
            last_worker: WorkerId(family.last_worker),
            reserved: pairs.iter().map(range).collect(),
            lanes_once: family.lanes_once,
            reuse_never: family.reuse_never,
            sticky: family.sticky,
            seq_min: family.seq_min,
        };
        let limits = FamilyChange::try_from(
            family
                .limits
                .as_ref()
                .unwrap_or(&v1::FamilyLimits::default()),
        )?;
        let limits = limits.apply_to(&FamilyLimits::DEFAULT);
        validate_family(&spec, &limits).map_err(|_| outside())?;
        Ok(Family {
            id: FamilyId(family.id),
            spec,
            limits,
            version: family.version,
        })
    }
}

impl From<FamilyChange> for v1::FamilyLimits {
    fn from(change: FamilyChange) -> v1::FamilyLimits {
        v1::FamilyLimits {
            window_ms: change.window_ms,
            window_max_ms: change.window_max_ms,
            ahead_ms: change.ahead_ms,
            sequence_start: change.sequence_start.map(|start| start.to_string()),
            workers_per_holder: change.workers_per_holder,
            frozen: change.frozen,
        }
    }
}

impl TryFrom<&v1::FamilyLimits> for FamilyChange {
    type Error = DecodeError;

    fn try_from(limits: &v1::FamilyLimits) -> Result<FamilyChange, DecodeError> {
        let start = limits.sequence_start.as_deref().map(str::parse).transpose();
        Ok(FamilyChange {
            window_ms: limits.window_ms,
            window_max_ms: limits.window_max_ms,
            ahead_ms: limits.ahead_ms,
            sequence_start: start.map_err(|_| DecodeError("sequence start of a family"))?,
            workers_per_holder: limits.workers_per_holder,
            frozen: limits.frozen,
        })
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_core::family::TickStart;

    use super::*;

    #[test]
    fn family_survives_the_wire() {
        let scale = TickScale::new(1_767_225_600_000, 10).unwrap();
        let layout = "0:1,time:39,lane:2,dc:3,worker:7,seq:8".parse().unwrap();
        let mut spec = FamilySpec::new("orders", layout, scale);
        let plain = Family {
            id: FamilyId(3),
            spec: spec.clone(),
            limits: FamilyLimits::DEFAULT,
            version: 9,
        };
        spec.dc = 5;
        spec.first_worker = WorkerId(2);
        spec.last_worker = WorkerId(99);
        spec.reserved = vec![(WorkerId(7), WorkerId(8)), (WorkerId(20), WorkerId(20))];
        spec.lanes_once = true;
        spec.reuse_never = true;
        spec.seq_min = 5;
        let limits = FamilyLimits {
            window_ms: 20_000,
            window_max_ms: 30_000,
            ahead_ms: 2_000,
            sequence_start: TickStart::Random { below: 100 },
            workers_per_holder: 3,
            frozen: true,
        };
        let full = Family {
            spec,
            limits,
            ..plain.clone()
        };
        let mut carries = plain.clone();
        carries.limits.sequence_start = TickStart::Carry;
        carries.spec.sticky = true;
        for family in [plain, full, carries] {
            assert_eq!(Family::try_from(&v1::Family::from(&family)), Ok(family));
        }
    }

    #[test]
    fn malformed_family_is_rejected() {
        let scale = TickScale::new(0, 1).unwrap();
        let spec = FamilySpec::new("f", "time:41,worker:3,seq:9".parse().unwrap(), scale);
        let family = v1::Family::from(&Family {
            id: FamilyId(1),
            spec,
            limits: FamilyLimits::DEFAULT,
            version: 1,
        });
        assert!(Family::try_from(&family).is_ok());
        let changes: [fn(&mut v1::Family); 7] = [
            |f| f.layout = "time:41".to_owned(),
            |f| f.unit_ms = 0,
            |f| f.last_worker = 8,
            |f| f.reserved = vec![1],
            |f| f.reserved = vec![3, 1],
            |f| f.limits.get_or_insert_default().ahead_ms = Some(10_000),
            |f| f.limits.get_or_insert_default().sequence_start = Some("other".into()),
        ];
        for change in changes {
            let mut bad = family.clone();
            change(&mut bad);
            assert!(Family::try_from(&bad).is_err(), "{bad:?}");
        }
    }
}
