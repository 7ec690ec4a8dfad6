"""Measurements that a stranger can repeat: python -m benchmarks NAME"""
