//! Namespaces: independent families of sequences, each with its geometry, progression and limits.

use serde::{Deserialize, Serialize};

use crate::geometry::{COUNT_MAX, Geometry};
use crate::ids::NamespaceId;
use crate::progression::Progression;

/// The dense namespace that exists from the start.
pub const DEFAULT_NAMESPACE: &str = "default";
/// The keyed namespace that exists from the start.
pub const DEFAULT_KEYED_NAMESPACE: &str = "keys";
/// Default step of a new namespace, in numbers.
pub const STEP_DEFAULT: u32 = 10_000;
/// Most numbers one raise may add, in any namespace. With at most half a window left at a refill,
/// the rest of a window stays under 2^31.
pub const STEP_MAX: u32 = 1 << 30;
/// Most namespaces a cluster may have.
pub const NAMESPACES_MAX: usize = 4_096;
/// Longest name, in bytes.
pub const NAME_MAX: usize = 64;
/// Greatest stride.
pub const STRIDE_MAX: u32 = 65_536;

/// Limits of a namespace, which may be changed after creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceLimits {
    /// Most numbers one raise may add; the adaptive step stays between `step` and this. Equal to
    /// `step`: the step is pinned. At least `step`, at most [`STEP_MAX`].
    pub step_max: u32,
    /// Most numbers that `RaiseTo` may jump over in one section, in total, without force.
    pub raise_to_max: u64,
    /// Whether the server treats every call to this namespace as strict: it answers only after a
    /// store has confirmed the answer (design 5.9).
    pub strict: bool,
}

/// Change of step and limits; a value that is None stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceChange {
    /// New step.
    pub step: Option<u32>,
    /// New [`NamespaceLimits::step_max`].
    pub step_max: Option<u32>,
    /// New [`NamespaceLimits::raise_to_max`].
    pub raise_to_max: Option<u64>,
    /// New [`NamespaceLimits::strict`].
    pub strict: Option<bool>,
}

impl NamespaceChange {
    /// Returns step and limits of a namespace after this change.
    pub fn apply_to(&self, spec: &NamespaceSpec) -> (u32, NamespaceLimits) {
        let limits = NamespaceLimits {
            step_max: self.step_max.unwrap_or(spec.limits.step_max),
            raise_to_max: self.raise_to_max.unwrap_or(spec.limits.raise_to_max),
            strict: self.strict.unwrap_or(spec.limits.strict),
        };
        (self.step.unwrap_or(spec.step), limits)
    }
}

/// A namespace as the state holds it and the routing table carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Id given by the store.
    pub id: NamespaceId,
    /// Settings that the creator chose.
    pub spec: NamespaceSpec,
    /// Table version of the last change.
    pub version: u64,
}

/// Settings that the creator of a namespace chooses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSpec {
    /// 1 to 64 of `a-z A-Z 0-9 _ . -`, beginning with a letter or digit.
    pub name: String,
    /// Geometry. Immutable.
    pub geometry: Geometry,
    /// Progression. Immutable.
    pub progression: Progression,
    /// Numbers a cold section's raise adds, 1 ..= `limits.step_max`.
    pub step: u32,
    /// Limits. May be altered.
    pub limits: NamespaceLimits,
}

impl NamespaceLimits {
    /// Default limits of a new namespace.
    pub const DEFAULT: NamespaceLimits = NamespaceLimits {
        step_max: 1 << 27,
        raise_to_max: 1_000_000_000,
        strict: false,
    };
}

impl NamespaceSpec {
    /// Makes a namespace with the defaults of everything but name and geometry.
    pub fn new(name: &str, geometry: Geometry) -> NamespaceSpec {
        NamespaceSpec {
            name: name.to_owned(),
            geometry,
            progression: Progression {
                start: 1,
                stride: 1,
                offset: 0,
            },
            step: STEP_DEFAULT,
            limits: NamespaceLimits::DEFAULT,
        }
    }

    /// Returns the spec of `default`: 2^32 uids in sections of 100,000.
    pub fn default_dense() -> NamespaceSpec {
        NamespaceSpec::new(
            DEFAULT_NAMESPACE,
            Geometry::Dense {
                section_size: 100_000,
                max_uid: 1 << 32,
            },
        )
    }

    /// Returns the spec of `keys`: 4,096 sections.
    pub fn default_keyed() -> NamespaceSpec {
        NamespaceSpec::new(DEFAULT_KEYED_NAMESPACE, Geometry::Keyed { sections: 4_096 })
    }

    /// Returns the most numbers one call may take here: [`COUNT_MAX`], and never above what a
    /// window may hold.
    pub fn count_max(&self) -> u32 {
        COUNT_MAX.min(self.limits.step_max)
    }

    /// Rejects values outside the documented bounds; the text says which bound.
    pub fn validate(&self) -> Result<(), String> {
        validate_name("namespace", &self.name)?;
        self.geometry.validate()?;
        let Progression {
            start,
            stride,
            offset,
        } = self.progression;
        if stride == 0 || stride > STRIDE_MAX {
            return Err(format!("stride must be 1 to {STRIDE_MAX}, not {stride}"));
        }
        if offset >= stride {
            return Err(format!(
                "offset must be below the stride {stride}, not {offset}"
            ));
        }
        if start == 0 || self.progression.first_after(0).is_none() {
            return Err(format!(
                "start must be 1 to 2^63-1 and leave room for a number, not {start}"
            ));
        }
        validate_step(self.step, &self.limits)
    }
}

/// Checks a step against the limits that apply to it.
pub fn validate_step(step: u32, limits: &NamespaceLimits) -> Result<(), String> {
    if limits.step_max == 0 || limits.step_max > STEP_MAX {
        return Err(format!(
            "step-max must be 1 to {STEP_MAX}, not {}",
            limits.step_max
        ));
    }
    if step == 0 || step > limits.step_max {
        return Err(format!(
            "step must be 1 to step-max ({}), not {step}",
            limits.step_max
        ));
    }
    Ok(())
}

/// Checks a namespace's or AllocSvr's name.
pub fn validate_name(what: &str, name: &str) -> Result<(), String> {
    let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-');
    let first = name
        .as_bytes()
        .first()
        .is_some_and(u8::is_ascii_alphanumeric);
    if name.len() > NAME_MAX || !first || !name.bytes().all(good) {
        return Err(format!(
            "{what} name {name:?}: use 1 to {NAME_MAX} of a-z A-Z 0-9 _ . - beginning with a letter or digit"
        ));
    }
    Ok(())
}
