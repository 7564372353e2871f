//! Namespaces and their settings.

use seqsvr_core::geometry::Geometry;
use seqsvr_core::ids::NamespaceId;
use seqsvr_core::namespace::{Namespace, NamespaceLimits, NamespaceSpec, STEP_DEFAULT};
use seqsvr_core::progression::Progression;

use super::DecodeError;
use crate::v1;

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

/// Returns a namespace's settings; absent (zero) numbers take the defaults.
pub fn namespace_spec_from(n: &v1::Namespace) -> Result<NamespaceSpec, DecodeError> {
    let or = |value: u32, default: u32| if value == 0 { default } else { value };
    let geometry = match n
        .geometry
        .as_ref()
        .ok_or(DecodeError("namespace without a geometry"))?
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
    Ok(NamespaceSpec {
        name: n.name.clone(),
        geometry,
        progression: Progression {
            start: n.start.max(1),
            stride: or(n.stride, 1),
            offset: n.offset,
        },
        step,
        limits: NamespaceLimits {
            step_max: or(n.step_max, NamespaceLimits::DEFAULT.step_max.max(step)),
            raise_to_max: if n.raise_to_max == 0 {
                NamespaceLimits::DEFAULT.raise_to_max
            } else {
                n.raise_to_max
            },
            strict: n.strict,
        },
    })
}

impl TryFrom<&v1::Namespace> for Namespace {
    type Error = DecodeError;

    fn try_from(n: &v1::Namespace) -> Result<Namespace, DecodeError> {
        let spec = namespace_spec_from(n)?;
        spec.validate()
            .map_err(|_| DecodeError("namespace outside its bounds"))?;
        Ok(Namespace {
            id: NamespaceId(n.id),
            spec,
            version: n.version,
        })
    }
}
