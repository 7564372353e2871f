//! What a principal may do.
//!
//! Invariant: what is not granted is denied, and no right implies another one. A pattern of
//! namespaces never covers a family of ids.
//!
//! Schedule that breaks it: an operator grants `*` to a service that takes numbers. If that covered
//! families as well, the service could use up the workers of all of them.

use std::fmt::{self, Display, Formatter};

use seqsvr_core::namespace::{NAME_MAX, validate_name};

/// What precedes the name of a family, which no namespace begins with.
pub const FAMILY_PREFIX: &str = "@ids/";

/// A right on namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceRight {
    /// Take numbers; of a family, take ids and hold workers.
    Next,
    /// Read the last number.
    Current,
    /// Raise a sequence.
    Raise,
}

impl NamespaceRight {
    /// Each right once.
    pub const ALL: [NamespaceRight; 3] = [Self::Next, Self::Current, Self::Raise];

    /// Returns the word for the right.
    pub fn name(self) -> &'static str {
        match self {
            NamespaceRight::Next => "next",
            NamespaceRight::Current => "current",
            NamespaceRight::Raise => "raise",
        }
    }
}

/// A right on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterRight {
    /// Read the status of cluster and servers, and list namespaces and families.
    Status,
    /// Read the metrics.
    Metrics,
    /// Make the changes that an AllocSvr itself makes: move and drain its slots, and, with the
    /// right to raise, force a sequence above its bound.
    Admin,
}

impl ClusterRight {
    /// Each right once.
    pub const ALL: [ClusterRight; 3] = [Self::Status, Self::Metrics, Self::Admin];

    /// Returns the word for the right.
    pub fn name(self) -> &'static str {
        match self {
            ClusterRight::Status => "status",
            ClusterRight::Metrics => "metrics",
            ClusterRight::Admin => "admin",
        }
    }

    /// Returns the right that a word stands for.
    pub fn parse(word: &str) -> Option<ClusterRight> {
        Self::ALL.into_iter().find(|right| right.name() == word)
    }
}

/// What a right is used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantTarget<'a> {
    /// The namespace with this name.
    Namespace(&'a str),
    /// The family of ids with this name.
    Family(&'a str),
}

impl<'a> GrantTarget<'a> {
    /// Parses the name of a namespace, or of a family after [`FAMILY_PREFIX`].
    ///
    /// # Errors
    /// Neither may have this name.
    pub fn parse(text: &'a str) -> Result<GrantTarget<'a>, String> {
        match text.strip_prefix(FAMILY_PREFIX) {
            Some(name) => validate_name("family", name).map(|()| GrantTarget::Family(name)),
            None => validate_name("namespace", text).map(|()| GrantTarget::Namespace(text)),
        }
    }
}

/// A text that is no pattern, with the reason. The text is not part of the error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPattern(String);

/// Names that a right is for: one, or all that begin in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantPattern {
    is_family: bool,
    /// The name, or its beginning.
    start: String,
    is_prefix: bool,
}

impl GrantPattern {
    /// Parses a name, or the beginning of names and one `*`; of families after [`FAMILY_PREFIX`].
    ///
    /// # Errors
    /// No name fits the text, or it names families, and the right is not for them.
    pub fn parse(right: NamespaceRight, text: &str) -> Result<GrantPattern, BadPattern> {
        let family = text.strip_prefix(FAMILY_PREFIX);
        if family.is_some() && right != NamespaceRight::Next {
            return Err(BadPattern(format!(
                "{} is not for families ({FAMILY_PREFIX}), which have only {}; grant that, or name a namespace",
                right.name(),
                NamespaceRight::Next.name()
            )));
        }
        let name = family.unwrap_or(text);
        let (start, is_prefix) = match name.strip_suffix('*') {
            Some(start) => (start, true),
            None => (name, false),
        };
        let covers_all = is_prefix && start.is_empty();
        if !covers_all && validate_name("", start).is_err() {
            return Err(BadPattern(format!(
                "no name fits this pattern; use 1 to {NAME_MAX} of a-z A-Z 0-9 _ . - beginning with a letter or digit, with one * at the end for all names that begin so, and {FAMILY_PREFIX} before it for families of ids"
            )));
        }
        Ok(GrantPattern {
            is_family: family.is_some(),
            start: start.to_owned(),
            is_prefix,
        })
    }

    /// Returns whether the right is for the target.
    fn covers(&self, target: GrantTarget<'_>) -> bool {
        let (is_family, name) = match target {
            GrantTarget::Namespace(name) => (false, name),
            GrantTarget::Family(name) => (true, name),
        };
        is_family == self.is_family
            && match self.is_prefix {
                true => name.starts_with(&self.start),
                false => name == self.start,
            }
    }
}

impl Display for GrantPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let family = if self.is_family { FAMILY_PREFIX } else { "" };
        let rest = if self.is_prefix { "*" } else { "" };
        write!(f, "{family}{}{rest}", self.start)
    }
}

/// All rights of a principal. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// What it may take.
    pub next: Vec<GrantPattern>,
    /// What it may read.
    pub current: Vec<GrantPattern>,
    /// What it may raise.
    pub raise: Vec<GrantPattern>,
    /// Its rights on the cluster.
    pub cluster: Vec<ClusterRight>,
}

/// The rights of a caller that has none.
pub(crate) static NO_GRANTS: Grants = Grants {
    next: Vec::new(),
    current: Vec::new(),
    raise: Vec::new(),
    cluster: Vec::new(),
};

impl Grants {
    /// Returns the patterns of a right.
    pub fn patterns(&self, right: NamespaceRight) -> &[GrantPattern] {
        match right {
            NamespaceRight::Next => &self.next,
            NamespaceRight::Current => &self.current,
            NamespaceRight::Raise => &self.raise,
        }
    }

    /// Returns whether they have a right on a namespace or family. It allocates nothing.
    pub fn has_right_on(&self, right: NamespaceRight, target: GrantTarget<'_>) -> bool {
        let mut patterns = self.patterns(right).iter();
        patterns.any(|pattern| pattern.covers(target))
    }

    /// Returns whether they have a right on the cluster.
    pub fn has_right(&self, right: ClusterRight) -> bool {
        self.cluster.contains(&right)
    }

    /// Returns whether they have no right.
    pub fn is_empty(&self) -> bool {
        *self == Grants::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(right: NamespaceRight, pattern: &str, target: &str) -> bool {
        let patterns = vec![GrantPattern::parse(right, pattern).unwrap()];
        let mut grants = Grants::default();
        match right {
            NamespaceRight::Next => grants.next = patterns,
            NamespaceRight::Current => grants.current = patterns,
            NamespaceRight::Raise => grants.raise = patterns,
        }
        let target = GrantTarget::parse(target).unwrap();
        let of_others = NamespaceRight::ALL
            .into_iter()
            .filter(|other| *other != right)
            .any(|other| grants.has_right_on(other, target));
        assert!(!of_others, "{pattern} implies another right");
        assert!(!ClusterRight::ALL.into_iter().any(|r| grants.has_right(r)));
        grants.has_right_on(right, target)
    }

    #[test]
    fn pattern_covers_its_names_only() {
        for (pattern, target, is_covered) in [
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("orders", "order", false),
            ("orders", "Orders", false),
            ("orders", "@ids/orders", false),
            ("inv-*", "inv-", true),
            ("inv-*", "inv-eu", true),
            ("inv-*", "inv", false),
            ("inv-*", "x-inv-eu", false),
            ("*", "orders", true),
            ("*", "@ids/orders", false),
        ] {
            for right in NamespaceRight::ALL {
                assert_eq!(
                    granted(right, pattern, target),
                    is_covered,
                    "{pattern} {target}"
                );
            }
        }
        for (pattern, target, is_covered) in [
            ("@ids/orders", "@ids/orders", true),
            ("@ids/orders", "@ids/orders2", false),
            ("@ids/orders", "orders", false),
            ("@ids/o*", "@ids/orders", true),
            ("@ids/*", "@ids/orders", true),
            ("@ids/*", "orders", false),
        ] {
            let next = NamespaceRight::Next;
            assert_eq!(
                granted(next, pattern, target),
                is_covered,
                "{pattern} {target}"
            );
        }
    }

    #[test]
    fn pattern_that_fits_no_name_is_rejected() {
        let longest = "n".repeat(NAME_MAX);
        for pattern in [
            "orders",
            "*",
            "o*",
            "@ids/*",
            &longest,
            &format!("{longest}*"),
        ] {
            let parsed = GrantPattern::parse(NamespaceRight::Next, pattern).unwrap();
            assert_eq!(parsed.to_string(), pattern);
        }
        for pattern in [
            "",
            "@ids/",
            "@ids",
            "@*",
            "@other/x",
            "-*",
            "**",
            "a*b",
            "*a",
            "a?",
            "a b",
            "ä",
            "@ids/@ids/a",
            &format!("{longest}n"),
            &format!("{longest}n*"),
        ] {
            let error = GrantPattern::parse(NamespaceRight::Next, pattern).unwrap_err();
            assert!(
                error.to_string().contains("no name fits"),
                "{pattern:?}: {error}"
            );
        }
        for right in [NamespaceRight::Current, NamespaceRight::Raise] {
            let error = GrantPattern::parse(right, "@ids/a")
                .unwrap_err()
                .to_string();
            assert!(error.contains("is not for families"), "{error}");
        }
    }

    #[test]
    fn rights_on_the_cluster_are_separate() {
        for granted in ClusterRight::ALL {
            let grants = Grants {
                cluster: vec![granted],
                ..Grants::default()
            };
            for right in ClusterRight::ALL {
                assert_eq!(grants.has_right(right), right == granted);
                assert_eq!(ClusterRight::parse(right.name()), Some(right));
            }
            let target = GrantTarget::Namespace("orders");
            assert!(!grants.has_right_on(NamespaceRight::Next, target));
            assert!(!grants.is_empty() && Grants::default().is_empty());
        }
    }
}
