//! The starter suite: twelve tasks as data.

mod reasoning;
mod safety;
mod tool_use;

use crate::task::{Category, Task};

/// Every task, in the order of reports.
pub fn all() -> impl Iterator<Item = &'static Task> {
    reasoning::TASKS.iter().chain(tool_use::TASKS).chain(safety::TASKS)
}

/// The task of that name.
pub fn by_name(name: &str) -> Option<&'static Task> {
    all().find(|task| task.name == name)
}

/// The tasks that both filters let through; an empty filter lets everything through.
///
/// The error is the first name that is no task's.
pub fn select(categories: &[Category], names: &[String]) -> Result<Vec<&'static Task>, String> {
    if let Some(unknown) = names.iter().find(|name| by_name(name).is_none()) {
        return Err(unknown.clone());
    }
    Ok(all()
        .filter(|task| categories.is_empty() || categories.contains(&task.category))
        .filter(|task| names.is_empty() || names.iter().any(|name| name == task.name))
        .collect())
}
