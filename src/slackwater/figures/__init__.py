"""Pictures of an advice, a plan and a race; the only modules that draw."""
