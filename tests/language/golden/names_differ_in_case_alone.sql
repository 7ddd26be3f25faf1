select V from S where KEY = 1 and NAME = 'x'
