// A file that cannot be loaded.
throw new Error('it does not load');
