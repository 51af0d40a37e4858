"""What the verbs of the command line do; imported by a verb when it is called, so that ``--help`` is quick."""
