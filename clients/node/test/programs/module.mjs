// A handler in a module, with its default export.
export default async (task) => `${task.data} in a module`;
