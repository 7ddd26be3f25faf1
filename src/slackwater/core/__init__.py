"""What every other package uses: time, schema, batches, state, options, errors. Imports no other package."""
