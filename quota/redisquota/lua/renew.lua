-- ARGV: keep (ms), id, token, cost, used, lease (us), then per window: name,
-- rate. What is not held, because it ran out or was lost, is held again.
-- Returns 0.
local keep, id = ARGV[1], ARGV[2]
local cost, used, lease = count(ARGV[4], 1), count(ARGV[5], 0), count(ARGV[6], 1)
if not (cost and used and lease) then return { 6, 0, 0 } end
record[id] = call('HGET', H, 'r:' .. id)
expire(512)
forget()

local f = parse(record[id] or '-')
if f[1] == 'S' then
  finish(keep)
  return 0
end
local token = ARGV[3]
local names = {}
if f[1] == '-' then
  for i = 7, #ARGV, 2 do
    local rate = count(ARGV[i + 1], 0)
    if not rate then return { 6, 0, 0 } end
    names[#names + 1] = ARGV[i]
    add(ARGV[i], cost)
    win(ARGV[i]).rate = rate
  end
else
  local taken = tonumber(f[2])
  for i = 5, #f do
    names[#names + 1] = f[i]
    add(f[i], cost - taken)
  end
  if f[1] == 'L' then
    used = math.max(used, tonumber(f[3]))
    token = f[4]
  else
    used = math.max(used, taken)
    charge(-taken)
    call('ZREM', D, id)
  end
end
put(id, table.concat({ 'L', num(cost), num(used), token, unpack(names) }, ' '))
call('ZADD', L, num(now + lease), id)
finish(keep)
return 0
