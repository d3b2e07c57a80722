//! Looks at the host.

use crate::cli::DoctorArgs;
use crate::settings::{Endpoint, default_model};
use crate::toolbox::{REQUIRED, builder, scratch};
use agentkit_agent::model::wire::Streaming;
use agentkit_agent::{Cancel, Context, NoEvents};
use agentkit_client::{Capabilities, Sandbox};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the endpoint is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// What was found.
pub(crate) struct Findings {
    /// The operating system and its version.
    pub(crate) system: String,
    /// What is enforced here; why nothing is, if nothing is.
    pub(crate) capabilities: Result<Capabilities, String>,
    /// What Python says about itself in the sandbox, or why it cannot be used. Nothing if there is no sandbox.
    pub(crate) python: Option<Result<String, String>>,
    pub(crate) endpoint: Endpoint,
    /// The model of the environment.
    pub(crate) model: Option<String>,
    /// The models that the endpoint has, or why it cannot be asked. Nothing if nobody wanted to know.
    pub(crate) models: Option<Result<Vec<String>, String>>,
}

/// What has to be done before all is well.
pub(crate) struct Problem {
    pub(crate) what: String,
    pub(crate) fix: String,
}

impl Findings {
    pub(crate) fn look(args: &DoctorArgs) -> Self {
        let capabilities = builder().build().map(|sandbox| sandbox.capabilities().clone());
        let endpoint = Endpoint::find(args.base_url.as_deref());
        let model = default_model();
        Findings {
            system: system(),
            capabilities: capabilities.map_err(|why| why.to_string()),
            python: scratch().ok().map(|sandbox| python(&sandbox)),
            models: args.endpoint.then(|| models(&endpoint)),
            model,
            endpoint,
        }
    }

    /// What keeps agents from working here, and what to do about it.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let python = self.python.iter().filter_map(|python| python.as_ref().err());
        let python = python.map(|why| Problem {
            what: format!("python: {why}"),
            fix: "install Python 3 where all users can read it, for instance as /usr/bin/python3".to_owned(),
        });
        let models = self.models.iter().filter_map(|models| models.as_ref().err());
        let models = models.map(|why| Problem {
            what: format!("endpoint: {why}"),
            fix: "check OPENAI_BASE_URL (or --base-url) and OPENAI_API_KEY, and that the server runs"
                .to_owned(),
        });
        self.sandbox_problems().into_iter().chain(python).chain(models).collect()
    }

    fn sandbox_problems(&self) -> Vec<Problem> {
        let capabilities = match &self.capabilities {
            Ok(capabilities) => capabilities,
            Err(why) => return vec![Problem { what: format!("sandbox: {why}"), fix: SANDBOX.to_owned() }],
        };
        if let Some(failure) = &capabilities.failure {
            let fix = failure.hint.clone().unwrap_or_else(|| SANDBOX.to_owned());
            let what = agentkit_client::Failure { hint: None, ..failure.clone() };
            return vec![Problem { what: format!("sandbox: {what}"), fix }];
        }
        let missing = capabilities.missing(REQUIRED).into_iter();
        let problem = |(control, level)| Problem {
            what: format!("sandbox: {control} is {level}"),
            fix: SANDBOX.to_owned(),
        };
        missing.map(problem).collect()
    }
}

/// Where the probe knows nothing better.
const SANDBOX: &str =
    "run on Linux 5.12 or newer with user namespaces and seccomp, outside of containers that forbid them";

fn python(sandbox: &Sandbox) -> Result<String, String> {
    let outcome = sandbox
        .run_code("python", "import sys\nprint(sys.version.split()[0])")
        .map_err(|why| why.to_string())?;
    if outcome.success() {
        return Ok(outcome.stdout.text().trim().to_owned());
    }
    Err(format!("a trial program {}: {}", outcome.describe(), outcome.stderr.text().trim()))
}

fn models(endpoint: &Endpoint) -> Result<Vec<String>, String> {
    let endpoint = endpoint.model("", Streaming::Off).map_err(|failure| failure.message)?;
    let context = Context::new(Some(Instant::now() + PATIENCE), Cancel::new(), Arc::new(NoEvents));
    endpoint.models(&context).map_err(|why| why.to_string())
}

fn system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH)
}
