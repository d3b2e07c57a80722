//! The tools of a run. Code only ever runs in a sandbox: where there is none, its tools refuse.

use agentkit_agent::tools::{calculator, python, recall, remember, shell};
use agentkit_agent::{Context, Registry, Tool, ToolError, ToolErrorKind, ToolOutput, ToolSpec};
use agentkit_client::{Bytes, Control, Error, Helper, Limits, ProcFiles, Sandbox, SandboxBuilder, WorkDir};
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Without these no code runs.
pub(crate) const REQUIRED: [Control; 2] = [Control::NetworkBlocked, Control::FilesystemConfined];

/// A jail that this very program becomes.
pub(crate) fn builder() -> SandboxBuilder {
    Sandbox::builder().helper(Helper::OwnExecutable)
}

/// Each call has an empty directory, which is gone after it.
///
/// # Errors
/// If this host does not confine fully.
pub(crate) fn scratch() -> Result<Sandbox, Error> {
    builder().require(REQUIRED).build()
}

/// Calls work in a directory of the user's. Sockets of the host can lie in it, so that the network never counts as fully
/// blocked; [`scratch`] tells whether it is but for that.
///
/// # Errors
/// If nothing can be run there, which is tried.
pub(crate) fn bound(directory: &Path) -> Result<Sandbox, Error> {
    let sandbox = builder()
        .require([Control::FilesystemConfined])
        .workdir(WorkDir::Bind(Bytes(directory.as_os_str().as_bytes().to_vec())))
        .proc_files(ProcFiles::Full)
        .limits(work())
        .build()?;
    sandbox.run(["true"]).map(|_| sandbox)
}

/// As much as the jail's profile `workspace` gives: enough for a project's tests.
fn work() -> Limits {
    Limits {
        wall_ms: 600_000,
        cpu_seconds: 1_200,
        memory: 2 << 30,
        disk: 1 << 30,
        file_size: 1 << 30,
        processes: 256,
        open_files: 1_024,
        output: None,
    }
}

/// The tools, in the order in which a model is told about them.
///
/// # Errors
/// Never, unless a tool of this program is badly made.
pub(crate) fn tools(sandbox: Result<Sandbox, String>) -> Result<Registry, Box<dyn std::error::Error>> {
    let mut registry = Registry::new();
    match sandbox {
        Ok(sandbox) => {
            registry.add(python::tool(sandbox.clone()))?;
            registry.add(shell::tool(sandbox))?;
        }
        Err(reason) => {
            // For their descriptions alone.
            let unused = builder().build()?;
            for spec in [python::tool(unused.clone()).spec(), shell::tool(unused).spec()] {
                registry.add(Refused { spec: spec.clone(), reason: reason.clone() })?;
            }
        }
    }
    registry.add(calculator::tool())?;
    registry.add(remember::tool())?;
    registry.add(recall::tool())?;
    Ok(registry)
}

/// A tool that needs a sandbox, where there is none.
struct Refused {
    spec: ToolSpec,
    reason: String,
}

impl Tool for Refused {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, _context: &Context, _arguments: Value) -> Result<ToolOutput, ToolError> {
        let message =
            format!("refused: code only runs in a sandbox, and this host has none: {}", self.reason);
        Err(ToolError::new(ToolErrorKind::Refused, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentkit_agent::model::ToolCall;

    #[test]
    fn without_a_sandbox_the_same_tools_refuse() {
        let registry = tools(Err("no namespaces (enable them)".to_owned())).expect("tools");
        let names: Vec<&str> = registry.specs().iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["python", "shell", "calculator", "remember", "recall"]);
        for (name, arguments) in [("python", r#"{"code":"print(1)"}"#), ("shell", r#"{"script":"id"}"#)] {
            let call = ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() };
            let error = registry.call(&Context::detached(), &call, false).expect_err("no sandbox");
            assert_eq!(error.kind, ToolErrorKind::Refused);
            assert!(error.message.ends_with("this host has none: no namespaces (enable them)"), "{error}");
        }
    }
}
