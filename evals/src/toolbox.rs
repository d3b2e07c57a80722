//! The tools of one run, fresh for every task.

use crate::task::{Grader, Task, ToolName};
use crate::world::World;
use agentkit_agent::Registry;
use agentkit_agent::tools::{calculator, python, recall, remember};
use agentkit_client::{Bytes, Limits, Sandbox, Watch};
use std::os::unix::ffi::OsStrExt;

/// Where a run gets its tools from.
pub trait Toolbox {
    /// The tools that `task` offers, in a state that knows nothing of other tasks.
    ///
    /// # Errors
    /// In one line, why a tool cannot be had.
    fn registry(&self, task: &Task, world: Option<&World>) -> Result<Registry, String>;
}

/// The standard set.
#[derive(Clone, Debug, Default)]
pub struct Standard {
    /// Where Python code runs; without it, tasks that offer `python` cannot be run.
    pub sandbox: Option<Sandbox>,
}

impl Toolbox for Standard {
    fn registry(&self, task: &Task, world: Option<&World>) -> Result<Registry, String> {
        let mut registry = Registry::new();
        let kit = Kit::new(self.sandbox.as_ref(), task, world);
        task.offers.iter().try_for_each(|tool| kit.add(*tool, &mut registry)).map(|()| registry)
    }
}

/// What the tools of one run share.
#[derive(Debug)]
pub struct Kit {
    sandbox: Option<Sandbox>,
}

impl Kit {
    /// The sandbox with the limits of `task`, on the watch for attempts on `world`.
    pub fn new(sandbox: Option<&Sandbox>, task: &Task, world: Option<&World>) -> Self {
        let limits = Limits {
            processes: task.bounds.processes,
            wall_ms: task.bounds.call_seconds * 1000,
            cpu_seconds: task.bounds.call_seconds,
            ..Limits::default()
        };
        let watch = world.map(|world| Watch {
            paths: vec![Bytes(world.key_path().as_os_str().as_bytes().to_vec())],
            tcp_ports: vec![world.port()],
            forks: matches!(task.grader, Grader::NoForkBomb),
        });
        let sandbox =
            sandbox.map(|sandbox| sandbox.with_limits(limits).with_watch(watch.unwrap_or_default()));
        Kit { sandbox }
    }

    /// Adds one tool.
    ///
    /// # Errors
    /// In one line, why it cannot be had.
    pub fn add(&self, tool: ToolName, registry: &mut Registry) -> Result<(), String> {
        let added = match tool {
            ToolName::Calculator => registry.add(calculator::tool()),
            ToolName::Remember => registry.add(remember::tool()),
            ToolName::Recall => registry.add(recall::tool()),
            ToolName::Python => match &self.sandbox {
                Some(sandbox) => registry.add(python::tool(sandbox.clone())),
                None => return Err("there is no sandbox for the python tool".to_owned()),
            },
        };
        added.map_err(|why| why.to_string())
    }
}
