//! The suite's scenarios for clients: which are run, in which eras, and why some are not.

use serde_json::Value;

/// The era of the stdio client where it is not the scenario's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forced {
    Legacy,
    Modern,
}

impl Forced {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// One scenario, at one revision, with one sort of client.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) scenario: &'static str,
    pub(crate) revision: &'static str,
    pub(crate) forced: Option<Forced>,
    /// Why it is expected to fail as things are.
    pub(crate) not_yet: Option<&'static str>,
}

pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";
/// The first revision with a chapter on logins.
const FIRST_LOGINS: &str = "2025-03-26";

/// What the suite requires of a client of 2025-11-25.
pub(crate) const REQUIRED_OF_LEGACY: [&str; 18] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
];

/// What it requires of a client of 2026-07-28.
pub(crate) const REQUIRED_OF_MODERN: [&str; 32] = [
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
];

/// Scenarios of 2026-07-28 with a client of the legacy era.
const BY_LEGACY_CLIENT: [&str; 14] = [
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
    // Logins are the bridge's own: enough of them to see that they work below a translation.
    "auth/metadata-default",
    "auth/basic-cimd",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/authorization-server-migration",
    "auth/iss-supported",
];

/// Scenarios of 2025-11-25 with a client of the modern era.
const BY_MODERN_CLIENT: [&str; 8] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "json-schema-2020-12-preservation",
    "auth/metadata-default",
    "auth/basic-cimd",
    "auth/scope-step-up",
];

/// Run although no revision requires them.
const UNSCORED: [(&str, &str); 6] = [
    ("json-schema-2020-12-preservation", LEGACY),
    ("json-schema-2020-12-preservation", MODERN),
    ("auth/2025-03-26-oauth-metadata-backcompat", FIRST_LOGINS),
    ("auth/2025-03-26-oauth-endpoint-fallback", FIRST_LOGINS),
    ("auth/client-credentials-basic", LEGACY),
    ("auth/client-credentials-jwt", LEGACY),
];

/// Not run, and required by no revision.
pub(crate) const NEVER: [(&str, &str); 8] = [
    ("auth/enterprise-managed-authorization", ENTERPRISE),
    ("auth/dpop", DPOP),
    ("auth/dpop-nonce", DPOP),
    ("auth/wif-jwt-bearer", "an extension that the bridge has not got: workload identities"),
    ("sep-2640-client-no-prefetch", SKILLS),
    ("sep-2640-client-verify-digest", SKILLS),
    ("sep-2640-client-verify-size", SKILLS),
    ("sep-2640-client-verify-frontmatter", SKILLS),
];
const ENTERPRISE: &str =
    "an extension that the bridge has not got: tokens of an employer's provider";
const DPOP: &str = "an extension that the bridge has not got: tokens bound to a key";
const SKILLS: &str = "an extension for those who read skills, which the bridge passes on unread";

/// What is expected to fail as things are; an entry that passes fails the test.
const NOT_YET: &[(&str, Option<Forced>, &str)] = &[];

/// Everything that is run.
pub(crate) fn runs() -> Vec<Run> {
    let native = |revision| move |scenario: &&'static str| run(scenario, revision, None);
    let forced = |revision, era| move |scenario: &&'static str| run(scenario, revision, Some(era));
    let unscored = UNSCORED.iter().map(|(scenario, revision)| run(scenario, revision, None));
    let required = REQUIRED_OF_LEGACY.iter().map(native(LEGACY));
    required
        .chain(REQUIRED_OF_MODERN.iter().map(native(MODERN)))
        .chain(BY_LEGACY_CLIENT.iter().map(forced(MODERN, Forced::Legacy)))
        .chain(BY_MODERN_CLIENT.iter().map(forced(LEGACY, Forced::Modern)))
        .chain(unscored)
        .collect()
}

fn run(scenario: &'static str, revision: &'static str, forced: Option<Forced>) -> Run {
    let is_it = |entry: &&(&str, Option<Forced>, &str)| entry.0 == scenario && entry.1 == forced;
    let not_yet = NOT_YET.iter().find(is_it).map(|entry| entry.2);
    Run { scenario, revision, forced, not_yet }
}

/// How many checks a run's folder says were passed.
pub(crate) fn passed_in(checks: &str) -> usize {
    let checks: Vec<Value> = serde_json::from_str(checks).expect("the checks are a list");
    checks.iter().filter(|check| check["status"] == "SUCCESS").count()
}

/// The scenarios for clients in what the suite prints as its list.
pub(crate) fn client_scenarios(list: &str) -> Vec<&str> {
    let lines = list.lines().skip_while(|line| !line.starts_with("Client scenarios"));
    let lines = lines.skip(1).take_while(|line| line.starts_with("  - "));
    lines.filter_map(|line| line.trim_start_matches("  - ").split_whitespace().next()).collect()
}
