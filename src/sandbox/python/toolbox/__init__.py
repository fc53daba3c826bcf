"""The library with which code in the sandbox calls tools: the modules `tools` and `hermes_tools` are made of it."""
