-- ARGV: keep (ms). Returns {held, reserved, charged, name, spent, name, spent...}.
while not expire(512) do end
forget()
finish(ARGV[1])
local held, reserved, res = 0, 0, {}
local all = call('HGETALL', H)
for i = 1, #all, 2 do
  local k, v = all[i], all[i + 1]
  local kind = string.sub(k, 1, 2)
  if kind == 'r:' and string.sub(v, 1, 1) == 'L' then
    held = held + 1
    reserved = reserved + tonumber(parse(v)[2])
  elseif kind == 'w:' then
    res[#res + 1] = string.sub(k, 3)
    res[#res + 1] = num(meter(v).spent)
  end
end
return { call('ZCARD', L), num(reserved), call('HGET', H, 'c') or '0', unpack(res) }
